#!/usr/bin/env bash
# Hooks in loops of PyTorch's, Lightning's, Transformers', MMEngine's and Keras', and their notebooks, with the wheel that .ci/wheel has made.
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
# PyTorch first: what pip has downloaded lies beside what it installs until it is done, 3 GB for PyTorch alone.
if ! { pip torch && pip numpy lightning transformers accelerate mmengine keras nbclient ipykernel onnxruntime pillow peft; }; then
  echo 'skipped: hooks in loops of PyTorch and the frameworks: there is no registry that has these'
  exit 0
fi
# A model in other programs: the same registry has them.
"$place/venv/bin/python" tests/onnx.py target/release/sconce
"$place/venv/bin/python" tests/to_transformers.py target/release/sconce
"$place/venv/bin/python" tests/tutorials.py target/release/sconce target/release --python
mkdir "$place/plugins"
cc -std=c99 -O2 -ffp-contract=off -Iplugin-api/include -fPIC -shared -o "$place/plugins/libclip.so" examples/clip-in-c/clip.c -lm
pip --no-index --no-deps "$wheel"
# Plugins of the wheel and the example in C; an interpreter for each part, since each imports PyTorch.
alone() { (cd "$place" && env -u PYTHONPATH -u SCONCE_LIBRARY "$@" >"$place/said" 2>&1) || { tail -n 60 "$place/said" >&2; exit 1; }; }
export SCONCE_PLUGINS=$place/plugins PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 KERAS_BACKEND=torch
for part in plain all; do
  alone "$place/venv/bin/python" -W ignore "$PWD/tests/loops/$part.py"
  grep '^ok: ' "$place/said"
done
notebooks=()
for loop in pytorch lightning transformers mmengine keras; do notebooks+=("$PWD/examples/notebook/$loop.ipynb"); done
alone env PATH="$place/venv/bin:$PATH" "$place/venv/bin/python" -W ignore "$PWD/tests/people/run_notebook.py" "${notebooks[@]}"
echo 'ok: the notebooks of five loops'
