#!/usr/bin/env bash
# Miri on what of plugin-api it can run: the unit tests, among them those of tensors that are lent
# and of text. Without Miri, but with a nightly compiler, AddressSanitizer takes its place: it sees
# accesses outside what was allocated, but no broken rule of aliasing. Skipped without either.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
# Nothing optimised: Miri takes none of it, and it builds sooner.
tests=(--quiet --locked --config 'profile.dev.opt-level=0' --config 'profile.dev.package."*".opt-level=0'
  --config 'profile.dev.package.abi_stable.opt-level=0' --config 'profile.dev.package.serde_json.opt-level=0'
  -p sconce-plugin-api --lib)

if cargo +nightly miri --version >/dev/null 2>&1; then
  cargo +nightly miri test --target-dir target/miri "${tests[@]}"
  echo "passed: plugin-api's unit tests under Miri"
  exit
fi

missing='no Miri (rustup component add miri --toolchain nightly)'
# The library of AddressSanitizer comes with the compiler, on some targets.
sysroot=$(rustc +nightly --print sysroot 2>/dev/null) || true
if [ -z "$sysroot" ] || ! compgen -G "$sysroot/lib/rustlib/$target/lib/librustc*_rt.asan.a" >/dev/null; then
  echo "skipped: $missing"
  exit
fi
RUSTFLAGS=-Zsanitizer=address cargo +nightly test --target "$target" --target-dir target/asan "${tests[@]}"
echo "passed: plugin-api's unit tests under AddressSanitizer, as there is $missing"
