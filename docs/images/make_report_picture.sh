#!/usr/bin/env bash
# Draws report.png, the picture in README.md: the top of the report page of a trace in testdata.
# Needs Debian's chromium and a built program.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
build/tools/xplane-time testdata/gpu/h200_train.xplane.pb.gz -o "$folder/report.html"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,1000 \
  --virtual-time-budget=5000 --screenshot=docs/images/report.png "file://$folder/report.html"
