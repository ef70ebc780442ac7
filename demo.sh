#!/usr/bin/env bash
# Builds xplane-time and runs its main job on a recorded JAX trace.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh
install_missing "${packages_for_building[@]}"
configure -DXPLANE_TIME_BUILD_TESTS=OFF
cmake --build build --target xplane-time >&2
echo '$ xplane-time testdata/gpu/h200_train.xplane.pb.gz'
build/tools/xplane-time testdata/gpu/h200_train.xplane.pb.gz
