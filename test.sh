#!/usr/bin/env bash
# Builds everything with warnings as errors and runs all tests, the Python package's too.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh
install_missing "${packages_for_building[@]}" "${packages_for_testing[@]}"
configure -DXPLANE_TIME_BUILD_TESTS=ON -DXPLANE_TIME_BUILD_BENCH=ON
cmake --build build
ctest --test-dir build --output-on-failure -j "$(nproc)"
python/tests/run.sh build/python
