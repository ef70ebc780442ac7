#!/usr/bin/env bash
# Builds everything with warnings as errors and runs all tests, the Python package's too.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/setup.sh
install_missing "${packages_for_building[@]}" "${packages_for_testing[@]}"
configure -DXPLANE_TIME_BUILD_TESTS=ON -DXPLANE_TIME_BUILD_BENCH=ON
cmake --build build
# The tests of Python beside the others: they wait for the network first, and then take one core.
python/tests/run.sh build/python >build/python.log 2>&1 &
python=$!
ctest --test-dir build --output-on-failure -j "$(nproc)" || failed=$?
wait "$python" || failed=$?
cat build/python.log
exit "${failed:-0}"
