#!/usr/bin/env bash
# Pages in a real browser. The `report` hook's: as wide as a desk's screen and as a phone, light and dark, and printed; trains for some
# seconds, and has `tests/browser.py` look at it. The documentation's: their search. That of `sconce board`, with a thousand runs: `tests/board.py`.
# usage: tests/browser.sh [DIRECTORY]    for the page and its pictures; default: target/browser
# Where there is no Chromium, Debian's is installed. Where that fails, a line says so, and with `CI` in the environment it is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(realpath -m "${1:-target/browser}")

# Chromium or a relative of it, the first that is installed.
browser() { command -v chromium chromium-headless-shell google-chrome | head -n 1; }

if [ -z "$(browser)" ] && command -v apt-get >/dev/null; then
  mkdir -p target
  # Without a window's libraries; a font is only recommended by it.
  { apt-get update -q && apt-get install -qy --no-install-recommends chromium-headless-shell fonts-dejavu-core; } >target/browser-install 2>&1 ||
    tail -n 5 target/browser-install >&2
fi
if [ -z "$(browser)" ]; then
  echo "skipped: no browser tests the report, the board and the documentation, for no Chromium is here and none can be installed" >&2
  [ -z "${CI-}" ] || exit 1
  exit 0
fi

[ -x target/release/sconce ] || cargo build --quiet --release --locked
rm -rf "$place"
mkdir -p "$place"
cat >"$place/run.json" <<JSON
{
  "name": "a-run-with-a-long-name-that-is-one-word-and-wider-than-a-phone",
  "seed": 1,
  "threads": 1,
  "output": "run",
  "plugins": ["$PWD/target/release"],
  "model": { "kind": "mlp", "hidden": [32, 16] },
  "data": { "kind": "synthetic-digits", "train": 400, "val": 100, "test": 100 },
  "optimizer": { "kind": "adamw", "learning_rate": 0.003 },
  "metrics": ["accuracy", "f1", { "kind": "top-k", "k": 3 }],
  "train": { "epochs": 6, "batch_size": 20, "initial_validation": true, "test": true },
  "hooks": [
    "activation-stats",
    "gradient-flow",
    { "hook": "checkpoint", "config": { "epochs": 2 } },
    { "hook": "lr-schedule", "config": { "schedule": { "kind": "cosine" } } },
    { "hook": "report", "config": { "iterations": 1 } }
  ]
}
JSON
target/release/sconce run "$place/run.json" >"$place/log" 2>&1 || { cat "$place/log" >&2; exit 1; }
bash .ci/book >"$place/book.log" || { cat "$place/book.log" >&2; exit 1; }
python3 tests/browser.py "$(browser)" "$place/run/report.html" "$place" target/book
python3 tests/board.py "$(browser)" target/release/sconce "$place/run" "$place/board"
