#!/usr/bin/env bash
# Short training runs under valgrind's memcheck, one with the standard plugins and the fixtures that
# behave, one with hooks that panic and fail: neither side of the boundary may touch memory that it
# has no right to. The host is built without mimalloc, which memcheck can't see through.
# Nothing is suppressed.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo 'skipped: no valgrind'; exit; }
place=$PWD/target/valgrind

rm -rf "$place"
mkdir -p "$place/plugins"
# Without optimisation memcheck takes what system calls return (file descriptors) for uninitialised.
cargo build --quiet --release --locked --workspace
cp target/release/sconce-plain "$place/sconce"
cp target/release/libsconce_plugin_*.so "$place/plugins/"
cp target/release/libsconce_fixture_{recorder,noop,tensors,giver,taker,faults}.so "$place/plugins/"
if [ "$(nm "$place/sconce" | grep -c ' mi_malloc')" != 0 ]; then
  echo 'the host was built with mimalloc: memcheck would see nothing' >&2
  exit 1
fi

cat >"$place/run.json" <<'END'
{
  "seed": 1,
  "threads": 2,
  "output": "out",
  "plugins": ["plugins"],
  "model": { "kind": "mlp", "hidden": [16, 8] },
  "data": { "kind": "synthetic-digits", "train": 50, "val": 20, "test": 10 },
  "optimizer": { "kind": "adamw", "learning_rate": 0.001 },
  "train": { "epochs": 3, "batch_size": 8, "accumulate": 2, "initial_validation": true, "test": true },
  "hooks": [
    "console",
    "csv",
    { "hook": "stop-after", "config": { "minutes": 60 } },
    { "hook": "checkpoint", "config": { "epochs": 1 } },
    { "hook": "early-stopping", "config": { "monitor": "loss" } },
    "stop-on-nan",
    { "hook": "ema", "config": { "set": "own", "evaluate": [] } },
    { "hook": "swa", "config": { "evaluate": [] } },
    { "hook": "lr-schedule", "config": { "warm_up": { "steps": 2 }, "schedule": { "kind": "cosine" } } },
    { "hook": "grad-clip", "config": { "max_norm": 1.0 } },
    "recorder",
    { "hook": "recorder", "every": { "epochs": 2 }, "config": { "file": "second.jsonl" } },
    "noop",
    { "hook": "clip", "config": { "max_norm": 0.1 } },
    { "hook": "decay", "config": { "rate": 0.001 } },
    { "hook": "average", "config": { "decay": 0.9 } },
    { "hook": "giver", "config": { "keep": "run" } },
    "taker",
    "counter",
    { "hook": "asker", "config": { "at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "here", "once": true } },
    { "hook": "asker", "config": { "at": "after_iter", "phase": "train", "what": "validate", "after_iteration": 2, "once": true } },
    { "hook": "asker", "config": { "at": "after_iter", "phase": "train", "what": "roll_back", "text": "here", "after_iteration": 3, "once": true } }
  ]
}
END
faults='hooks=[
  {"hook": "fault", "name": "a", "on_error": "disable", "config": {"at": "after_loss"}},
  {"hook": "fault", "name": "b", "on_error": "ignore", "config": {"at": "after_iter", "how": "long-error"}},
  {"hook": "fault", "name": "c", "config": {"at": "before_update", "how": "panic-with-number", "from_call": 2}}
]'

# A run under memcheck with further arguments; expects an exit code.
memcheck() {
  local code=0 log=$place/log-$1 output=$place/output-$1
  valgrind --error-exitcode=99 --track-origins=no --leak-check=no --num-callers=30 \
    --log-file="$log" "$place/sconce" run "$place/run.json" --output "$place/out-$1" "${@:2}" \
    >"$output" 2>&1 || code=$?
  if [ "$code" != "$1" ] || ! grep -q 'ERROR SUMMARY: 0 errors' "$log"; then
    # The errors of hooks are long on purpose.
    cut -c1-200 "$output" "$log" >&2
    echo "expected exit code $1, found $code" >&2
    return 1
  fi
  sed -n 's/^.*total heap usage: /memcheck found no error: /p' "$log"
}

# Side by side: valgrind lets one thread run at a time.
memcheck 4 --set "$faults" &
memcheck 0
wait $!
echo 'passed: no wrong access in a run with 22 well-behaved hooks and in one with 3 that fail'
