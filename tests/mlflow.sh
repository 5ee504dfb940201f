#!/usr/bin/env bash
# Logs a run to a real MLflow server by the `mlflow` hook, lets it go on from a checkpoint, and asks the server by MLflow's own
# client what it has. Installs MLflow into a virtual environment (the first argument; default: target/mlflow) where it is not there.
# Exits with 0 and says why where that can't be done.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(realpath -m "${1:-target/mlflow}")
port=${MLFLOW_PORT:-5077}
if [ ! -x "$venv/bin/mlflow" ]; then
    if ! { python3 -m venv "$venv" && "$venv/bin/pip" install -q mlflow; }; then
        echo "skipped: MLflow can't be installed here"
        exit 0
    fi
fi
cargo build --quiet -p sconce -p sconce-plugin-tracking -p sconce-fixture-faults
target=${CARGO_TARGET_DIR:-target}/debug
place=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$place"' EXIT
cat > "$place/manifest.json" <<JSON
{
  "name": "tiny", "seed": 1, "output": "out", "plugins": ["$(realpath "$target")"],
  "model": {"kind": "mlp", "hidden": [8]},
  "data": {"kind": "synthetic-digits", "train": 24, "val": 10, "test": 6},
  "optimizer": {"kind": "sgd", "learning_rate": 0.01},
  "train": {"epochs": 2, "batch_size": 8},
  "hooks": [
    {"hook": "mlflow", "config": {"uri": "http://127.0.0.1:$port", "experiment": "sconce test", "interval": 1,
      "tags": {"who": "sconce"}, "artifacts": ["manifest.json"], "on_failure": "error"}},
    {"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter", "phase": "train", "what": "save_checkpoint",
      "text": "here", "after_iteration": 4, "once": true}}
  ]
}
JSON
(cd "$place" && exec "$venv/bin/mlflow" server --host 127.0.0.1 --port "$port" --workers 1 \
    --backend-store-uri "sqlite:///$place/mlflow.db" --artifacts-destination "$place/artifacts") > "$place/server.log" 2>&1 &
server=$!
export NO_PROXY=127.0.0.1
for _ in $(seq 120); do
    if curl -sf "http://127.0.0.1:$port/health" > /dev/null; then break; fi
    if ! kill -0 "$server" 2> /dev/null; then break; fi
    sleep 1
done
if ! curl -sf "http://127.0.0.1:$port/health" > /dev/null; then
    echo "skipped: the MLflow server doesn't start here:"
    tail -5 "$place/server.log"
    exit 0
fi
sconce=$(realpath "$target/sconce")
(cd "$place" && "$sconce" run manifest.json && "$sconce" run manifest.json --resume here) > "$place/run.log" 2>&1 ||
    { cat "$place/run.log"; exit 1; }
MLFLOW_TRACKING_URI="http://127.0.0.1:$port" "$venv/bin/python" - "$place/out" <<'PYTHON'
import json
import sys

import mlflow

client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name("sconce test")
runs = client.search_runs([experiment.experiment_id])
assert len(runs) == 1, "a run that goes on is the same run"
run = runs[0]
record = json.load(open(sys.argv[1] + "/run.json"))
assert run.info.status == "FINISHED", run.info.status
assert run.info.run_name == "tiny"
assert run.data.params["train.epochs"] == "2", run.data.params
assert run.data.params["model.kind"] == "mlp"
assert run.data.tags["who"] == "sconce" and run.data.tags["sconce.outcome"] == "completed", run.data.tags
steps = [metric.step for metric in client.get_metric_history(run.info.run_id, "iteration/loss")]
assert sorted(steps) == [1, 2, 3, 4, 5, 6], steps
for phase in ("train", "val", "test"):
    found = run.data.metrics[phase + "/loss"]
    assert abs(found - record["metrics"][phase]["loss"]) < 1e-12, (phase, found)
assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["manifest.json"]
print("MLflow", mlflow.__version__, "has the run as it was")
PYTHON
