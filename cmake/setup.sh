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

configure() {
  cmake --preset release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DXPLANE_TIME_WERROR=ON "$@" >&2
}
