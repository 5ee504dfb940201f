#!/usr/bin/env bash
# How many instructions the call of a no-op hook in a plugin takes, in Rust and in C: counted by valgrind, so that
# the number is the same whatever else the machine is doing. Fails above the limits. Then that of whole training steps.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --release --locked --workspace
program=target/release/dispatch-calls
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rust=target/release/libsconce_fixture_noop.so
c=$scratch/libnoop.so
cc -std=c99 -O2 -Wall -Wextra -Wpedantic -Werror -fPIC -shared -Iplugin-api/include -o "$c" tests/c/noop.c

# Instructions of a whole run of this library with this many hooks and calls.
count() {
  local log
  log=$scratch/$(basename "$1")-$2-$3
  valgrind --tool=callgrind --callgrind-out-file="$log.out" "$program" "$1" "$2" "$3" \
    >"$log" 2>&1 || { cat "$log" >&2; return 1; }
  sed -n 's/.*Collected : //p' "$log"
}

# Instructions of one call of a mount point with this many hooks of a library. The counts are the same beside each other.
per_point() {
  local few many kept
  kept=$scratch/few-$(basename "$1")-$2
  count "$1" "$2" 1000 >"$kept" &
  many=$(count "$1" "$2" 11000)
  wait $!
  few=$(cat "$kept")
  echo $(((many - few) / 10000))
}

per_point "$rust" 0 >"$scratch/empty" &
empty=$!
per_point "$rust" 1 >"$scratch/one" &
one=$!
hundred=$(per_point "$rust" 100)
wait "$empty"
wait "$one"
empty=$(cat "$scratch/empty")
one=$(cat "$scratch/one")
each=$(((hundred - one) / 99))
per_point "$c" 1 >"$scratch/one-c" &
one_c=$!
hundred_c=$(per_point "$c" 100)
wait "$one_c"
each_c=$(((hundred_c - $(cat "$scratch/one-c")) / 99))
printf 'a mount point with no hook:     %4d instructions\n' "$empty"
printf 'a mount point with one hook:    %4d instructions\n' "$one"
printf 'each further hook at the point: %4d instructions\n' "$each"
printf 'each further hook in C:         %4d instructions\n' "$each_c"
if [ "$empty" -gt 30 ] || [ "$each" -gt 80 ]; then
  echo 'more than the limits of 30 and 80' >&2
  exit 1
fi
if [ $((each_c * 10)) -gt $((each * 11)) ]; then
  echo 'a hook in C costs more than 1.1 times one in Rust' >&2
  exit 1
fi
# Without bytecode, which would be written among the sources.
python3 -B tests/step_instructions.py
