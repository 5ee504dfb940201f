#!/usr/bin/env bash
# Plugins built by other compilers than the host's load and run: examples/outside-plugin, and the
# fixtures that panic and that write to tensors. The compilers are Debian's rustc-web in every
# version there is, unpacked below target/ and not installed; where there is none, another toolchain
# of rustup's. Skipped where there is neither.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$PWD/target/other-compiler
plugins=$PWD/target/release
sconce=$plugins/sconce
mkdir -p "$place"

# The programs that run a `rustc` of another version than ours, one a line.
other_compilers() {
  local version toolchain
  apt-get update -qq >&2 || true
  for version in $(apt-cache madison rustc-web 2>/dev/null | awk '{ print $3 }' | sort -uV); do
    unpack "$version" >&2 && echo "$place/$version/rustc"
  done | grep . && return
  rustup toolchain list 2>/dev/null | while read -r toolchain _; do
    rustup which --toolchain "$toolchain" rustc
  done
}

# Unpacks a version of rustc-web, with the libraries that this machine lacks.
unpack() {
  local to=$place/$1 package
  [ -x "$to/rustc" ] && return
  rm -rf "$to"
  mkdir -p "$to/archives/partial"
  apt-get install --download-only --no-install-recommends -qq -y -o Debug::NoLocking=true \
    -o Dir::Cache::archives="$to/archives" "rustc-web=$1" "libstd-rust-web-dev=$1" || return
  for package in "$to"/archives/*.deb; do
    dpkg-deb -x "$package" "$to/root" || return
  done
  rm -r "$to/archives"
  cat >"$to/rustc" <<END
#!/bin/sh
LD_LIBRARY_PATH=$to/root/usr/lib/x86_64-linux-gnu exec $to/root/usr/bin/rustc "\$@"
END
  chmod +x "$to/rustc"
}

# What the metadata of a library say of its compiler.
compiler_of() { "$sconce" inspect "$1" | sed -n 's/^compiler  *//p'; }

# Runs `sconce` with the arguments after the first two; expects an exit code and some text.
expect() {
  local code=0
  "$sconce" run examples/outside-plugin/run.json "${@:3}" >"$place/output" 2>&1 || code=$?
  if [ "$code" != "$1" ] || ! grep -qF "$2" "$place/output"; then
    echo "expected exit code $1 and \"$2\", found $code and:" >&2
    cat "$place/output" >&2
    exit 1
  fi
}

# The profile of a crate outside this workspace, to the last key: what both depend on would be built twice.
plain=(--config 'profile.dev.opt-level=0' --config 'profile.dev.package."*".opt-level=0' --config 'profile.dev.lto=false')
for package in abi_stable memchr serde_json; do
  plain+=(--config "profile.dev.package.$package.opt-level=0")
done

# Builds plugins by the compiler $1 and runs them.
check() {
  local rustc=$1 built=$place/built/debug run=$place/run
  local cargo=(env RUSTC="$rustc" CARGO_PROFILE_DEV_DEBUG=false cargo build --quiet --locked
    --ignore-rust-version --target-dir "$place/built")
  "${cargo[@]}" --manifest-path examples/outside-plugin/Cargo.toml
  # Nothing optimised, as in the example's own profile: what both depend on is built once.
  "${cargo[@]}" "${plain[@]}" -p sconce-fixture-faults -p sconce-fixture-tensors
  if [ "$(compiler_of "$built/libbest_loss.so")" != "$("$rustc" --version)" ]; then
    echo "sconce inspect does not say that $built/libbest_loss.so is of this compiler" >&2
    exit 1
  fi

  rm -rf "$run"
  local small=(--output "$run" --set "plugins=[\"$built\",\"$plugins\"]"
    --set 'data={"kind":"synthetic-digits","train":1000,"val":200,"test":10}')
  expect 0 'is good enough' "${small[@]}" --set 'hooks[1].config.accuracy=0.5'
  grep -q '^loss [0-9.]*$' "$run/best.txt"
  expect 3 'must be from 0 to 1, found 2' "${small[@]}" --set 'hooks[1].config.accuracy=2'
  expect 4 'told to panic at after_loss' "${small[@]}" \
    --set 'hooks=[{"hook":"fault","config":{"at":"after_loss"}}]'
  expect 0 'grad_norm' "${small[@]}" --set \
    'hooks=[{"hook":"clip","config":{"max_norm":0.5}},{"hook":"decay","config":{"rate":0.001}},"console"]'
}

cargo build --quiet --release
ours=$(compiler_of "$plugins/libsconce_plugin_console.so")
checked=()
for rustc in $(other_compilers); do
  theirs=$("$rustc" --version)
  [ "$theirs" = "$ours" ] && continue
  echo "the host is of $ours, the plugins of $theirs"
  check "$rustc"
  checked+=("$theirs")
  # A gigabyte that nothing reads again, on disks that may be small.
  rm -rf "$place/built"
done
if [ "${#checked[@]}" = 0 ]; then
  echo 'skipped: no other compiler than ours, neither as Debian package rustc-web nor by rustup'
  exit
fi
printf -v list ', %s' "${checked[@]}"
echo "passed: plugins of ${list:2} run in a host of $ours"
