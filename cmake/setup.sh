# Sourced by demo.sh and test.sh: installs what a bare Debian 12 lacks, and configures.
# Uses ccache where it is installed.
packages_for_building=(g++ cmake ninja-build pkg-config protobuf-compiler libprotobuf-dev
                       libabsl-dev libre2-dev libcli11-dev nlohmann-json3-dev zlib1g-dev libsqlite3-dev
                       libssl-dev libsimdjson-dev)
packages_for_testing=(libgtest-dev libgmock-dev python3 python3-jsonschema python3-dev python3-venv)

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
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake --preset release "${launcher[@]}" "$@" >&2
}
