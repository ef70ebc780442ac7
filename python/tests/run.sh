#!/usr/bin/env bash
# Builds the Python package into a virtual environment of its own, tests it there, and
# checks its types: run.sh BUILD_DIRECTORY
set -euo pipefail
build=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../.."
[ -x "$build/venv/bin/python" ] || python3 -m venv "$build/venv"
# With the flags of ./test.sh: what it compiled is not compiled again. Paths in the build directory
# are relative for the compiler cache, as in cmake/setup.sh.
export CCACHE_BASEDIR=$build/package
flags="-DXPLANE_TIME_WERROR=ON -DCMAKE_CXX_COMPILER=c++"
if command -v ccache >/dev/null; then flags+=" -DCMAKE_CXX_COMPILER_LAUNCHER=ccache"; fi
CMAKE_ARGS="$flags" "$build/venv/bin/pip" install --quiet --disable-pip-version-check \
  --config-settings=build-dir="$build/package" '.[test,originals,fleet]'
# Without what they need: a GPU stack, where one file is compared with, and notebooks.
"$build/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
  ejkernel==0.0.80.3 HolisticTraceAnalysis==0.5.0
tests=$PWD/python/tests
cd "$build"  # not where the sources of the package are
venv/bin/python -m unittest discover "$tests"
venv/bin/mypy --strict -p xplane_time

# Debian's PyTorch belongs to Debian's Python, which can take the package where it is of one version
# with that of the environment: debian/ has it alone, for other libraries are Debian's own.
mkdir -p debian
ln -sfn "$(echo "$build"/venv/lib/python3.*/site-packages/xplane_time)" debian/xplane_time
if PYTHONPATH=$build/debian /usr/bin/python3 -c 'import torch, xplane_time' 2>/dev/null; then
  PYTHONPATH=$build/debian /usr/bin/python3 -m unittest discover "$tests" -p test_torch.py
else
  echo "not tested: xplane_time.torch with PyTorch: apt-get install python3-torch python3-pandas"
fi
