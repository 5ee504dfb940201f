#!/usr/bin/env bash
# How many instructions the call of a no-op hook in a plugin takes: counted by valgrind, so that
# the number is the same whatever else the machine is doing. Fails above the limits.
set -euo pipefail
cd "$(dirname "$0")/.."
# Beside the packages of `cargo build`: so none of them is built again with other features.
cargo build --quiet --release --locked -p sconce -p 'sconce-plugin-*' -p sconce-dispatch -p sconce-fixture-noop
program=target/release/dispatch-calls
library=target/release/libsconce_fixture_noop.so
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Instructions of a whole run with this many hooks and calls.
count() {
  local log=$scratch/$1-$2
  valgrind --tool=callgrind --callgrind-out-file="$log.out" "$program" "$library" "$1" "$2" \
    >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  sed -n 's/.*Collected : //p' "$log"
}

# Instructions of one call of a mount point with this many hooks. The counts are the same beside each other.
per_point() {
  local few many
  count "$1" 1000 >"$scratch/few-$1" &
  many=$(count "$1" 11000)
  wait $!
  few=$(cat "$scratch/few-$1")
  echo $(((many - few) / 10000))
}

per_point 0 >"$scratch/empty" &
empty=$!
per_point 1 >"$scratch/one" &
one=$!
hundred=$(per_point 100)
wait "$empty"
wait "$one"
empty=$(cat "$scratch/empty")
one=$(cat "$scratch/one")
each=$(((hundred - one) / 99))
printf 'a mount point with no hook:     %4d instructions\n' "$empty"
printf 'a mount point with one hook:    %4d instructions\n' "$one"
printf 'each further hook at the point: %4d instructions\n' "$each"
if [ "$empty" -gt 30 ] || [ "$each" -gt 80 ]; then
  echo 'more than the limits of 30 and 80' >&2
  exit 1
fi
