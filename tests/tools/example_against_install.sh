#!/usr/bin/env bash
# example_against_install BUILD SOURCE: installs into a scratch prefix, builds
# examples/variants through find_package and through pkg-config, and runs both.
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

pc=$(find "$scratch/prefix" -name xplane_time.pc)
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --static --cflags --libs xplane_time)
# shellcheck disable=SC2086  # a list of flags
g++ "$source/examples/variants/variants.cc" -o "$scratch/by_pkg_config" $flags
"$scratch/by_pkg_config" "$trace" | cmp - "$scratch/out"
