# Sourced by demo.sh and test.sh: installs what a bare Debian 12 lacks, and configures, so that one
# build serves both: the same flags, and tests are more targets of it. The Python package has a
# build of its own; ccache finds its objects in the first one.
packages_for_building=(g++ ccache cmake ninja-build pkg-config protobuf-compiler libprotobuf-dev
                       libabsl-dev libre2-dev libcli11-dev nlohmann-json3-dev zlib1g-dev libsqlite3-dev
                       libssl-dev libeigen3-dev libcurl4-openssl-dev node-d3)
packages_for_testing=(libbenchmark-dev libgtest-dev libgmock-dev libsimdjson-dev python3
                      python3-jsonschema python3-dev python3-venv)

install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing: ${missing[*]}" >&2
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# Several sources are compiled as one unit, because parsing their headers takes most of the time.
# Units lie in the build directory. Relative to CCACHE_BASEDIR, their paths are the same in each build.
configure() {
  cmake --preset release -DXPLANE_TIME_WERROR=ON \
    -DCMAKE_CXX_COMPILER_LAUNCHER="env;CCACHE_BASEDIR=$PWD/build;ccache" \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8 "$@" >&2
}
