#!/usr/bin/env bash
# example_against_install BUILD SOURCE: installs into a scratch prefix, builds
# examples/variants and the look-up of docs/store.md through find_package and through
# pkg-config, and runs them.
set -euo pipefail
build=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
for file in bin/xplane-time share/bash-completion/completions/xplane-time \
            share/zsh/site-functions/_xplane-time \
            share/fish/vendor_completions.d/xplane-time.fish; do
  [ -s "$scratch/prefix/$file" ] || { echo "not installed: $file" >&2; exit 1; }
done
bash -n "$scratch/prefix/share/bash-completion/completions/xplane-time"

cmake -G Ninja -S "$source/examples/variants" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Debug \
      -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/build" >/dev/null
trace=$source/testdata/jax_cpu_variants.xplane.pb
"$scratch/build/variants" "$trace" > "$scratch/out"
cat "$scratch/out"
[ "$(grep -c '^variant [0-7]: median .* us over 6 runs$' "$scratch/out")" = 8 ]
sort -c -t' ' -k4,4g "$scratch/out"
# A trace without variants is named, with the names that variants have.
status=0
"$scratch/build/variants" "$source/testdata/jax_cpu_control_flow.xplane.pb" 2> "$scratch/err" || status=$?
[ "$status" = 65 ] && grep -q jit_autotune_fn_N "$scratch/err"

pc=$(find "$scratch/prefix" -name xplane_time.pc)
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs xplane_time)
# shellcheck disable=SC2086  # a list of flags
g++ "$source/examples/variants/variants.cc" -o "$scratch/by_pkg_config" $flags
"$scratch/by_pkg_config" "$trace" | cmp - "$scratch/out"

mkdir "$scratch/lookup"
awk '/^```cpp/ {inside = 1; next} /^```/ {inside = 0} inside' "$source/docs/store.md" \
  > "$scratch/lookup/lookup.cc"
cat > "$scratch/lookup/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(lookup LANGUAGES CXX)
find_package(xplane_time 0.1 REQUIRED)
add_executable(lookup lookup.cc)
target_link_libraries(lookup PRIVATE xplane_time::tune)
END
cmake -G Ninja -S "$scratch/lookup" -B "$scratch/lookup/build" -DCMAKE_BUILD_TYPE=Debug \
      -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/lookup/build" >/dev/null
awk '/^```json/ {inside = 1; next} /^```/ {inside = 0} inside' "$source/docs/store.md" \
  > "$scratch/tuned.json"
"$scratch/lookup/build/lookup" "$scratch/tuned.json" > "$scratch/found"
cat "$scratch/found"
grep -qx 'any_code: {"block_m":64}' "$scratch/found"

flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs xplane_time_tune)
# shellcheck disable=SC2086  # a list of flags
g++ "$scratch/lookup/lookup.cc" -o "$scratch/by_pkg_config" $flags
"$scratch/by_pkg_config" "$scratch/tuned.json" | cmp - "$scratch/found"
