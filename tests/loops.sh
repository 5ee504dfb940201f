#!/usr/bin/env bash
# Hooks in loops of PyTorch's, Lightning's, Transformers' and MMEngine's, with the wheel that .ci/wheel has made.
# Without a registry that has PyTorch these are left out, and a note says so.
# usage: tests/loops.sh [WHEEL]    default: the one in target/wheel
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath "${1:-$(ls -t target/wheel/sconce_train-*.whl | head -n 1)}")
python3 tests/loops/table.py target/release target/release/sconce --check
place=$(mktemp -d "${TMPDIR:-/tmp}/loops.XXXXXX")
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
pip() { "$place/venv/bin/pip" install --quiet --no-compile --disable-pip-version-check "$@"; }
if ! pip torch numpy lightning transformers accelerate mmengine onnxruntime; then
  echo 'skipped: hooks in loops of PyTorch, Lightning, Transformers and MMEngine: there is no registry that has these'
  exit 0
fi
# A model in another program: the same registry has it.
"$place/venv/bin/python" tests/onnx.py target/release/sconce
mkdir "$place/plugins"
cc -std=c99 -O2 -ffp-contract=off -Iplugin-api/include -fPIC -shared -o "$place/plugins/libclip.so" examples/clip-in-c/clip.c -lm
pip --no-index --no-deps "$wheel"
for part in plain 'frameworks lightning' 'frameworks transformers' 'frameworks mmengine'; do
  # shellcheck disable=SC2086
  set -- $part
  (cd "$place" && env -u PYTHONPATH -u SCONCE_LIBRARY SCONCE_PLUGINS="$place/plugins" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 "$place/venv/bin/python" -W ignore "$OLDPWD/tests/loops/$1.py" "${@:2}" >"$place/said" 2>&1) || {
    tail -n 60 "$place/said" >&2
    exit 1
  }
  grep '^ok: ' "$place/said"
done
