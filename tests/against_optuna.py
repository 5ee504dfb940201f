"""Sweeps beside Optuna: the same manifest, the same space and number of trials, random search and successive halving (at 1, 3 and 9 epochs,
one in three goes on), one trial at a time. Optuna's trials are runs of the `sconce` binary, too. Prints wall time, epochs trained and the
best loss of each.

usage: tests/against_optuna.py IMAGES LABELS [--trials N] [--seeds 1,2]    IMAGES, LABELS: IDX files. Needs optuna.
"""
import argparse, csv, json, subprocess, tempfile, time
from pathlib import Path

import optuna

ROOT = Path(__file__).resolve().parent.parent
HIDDEN = [[32], [128], [128, 128]]
RUNGS = (1, 3, 9)


def manifest(arguments):
    return {
        "seed": 1, "threads": arguments.threads, "plugins": [str(Path(arguments.binary).resolve().parent)], "hooks": ["csv"],
        "model": {"kind": "mlp", "hidden": [32]},
        "data": {"kind": "idx", "images": str(Path(arguments.images).resolve()), "labels": str(Path(arguments.labels).resolve()), "val": {"fraction": 0.2}},
        "optimizer": {"kind": "adamw", "learning_rate": 1e-3}, "train": {"epochs": RUNGS[-1], "batch_size": 64, "test": False},
    }


def run(arguments, *words):
    ended = subprocess.run([str(Path(arguments.binary).resolve()), *map(str, words)], capture_output=True, text=True)
    assert ended.returncode == 0, f"{words}: {ended.stderr}"


def losses(directory):
    with (directory / "val.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def found(runs):
    """Epochs of all runs, and the least last loss of those that trained to the end."""
    every = [losses(directory) for directory in runs]
    return sum(map(len, every)), min(of[-1] for of in every if len(of) == RUNGS[-1])


def ours(is_halving, seed, place, arguments):
    sweep = {
        "run": "run.json", "metric": "val/loss", "trials": arguments.trials, "seed": seed, "parallel": 1, "threads": arguments.threads,
        "random": {"optimizer.learning_rate": {"log": [1e-4, 1e-1]}, "model.hidden": {"of": HIDDEN}, "train.batch_size": {"of": [32, 64, 128]}},
        "output": "sweep",
    }
    if is_halving:
        sweep["halving"] = {"first": RUNGS[0], "factor": 3}
    (place / "sweep.json").write_text(json.dumps(sweep))
    run(arguments, "sweep", place / "sweep.json")
    return found(path.parent for path in (place / "sweep").glob("*/val.csv"))


def theirs(is_halving, seed, place, arguments):
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial):
        values = {"optimizer.learning_rate": trial.suggest_float("rate", 1e-4, 1e-1, log=True),
                  "model.hidden": json.dumps(HIDDEN[trial.suggest_categorical("hidden", [0, 1, 2])]),
                  "train.batch_size": trial.suggest_categorical("batch", [32, 64, 128])}
        output = place / f"{trial.number}"
        words = [word for path, value in values.items() for word in ("--set", f"{path}={value}")] + ["--set", f"output={output}", "--quiet"]
        rungs = RUNGS if is_halving else RUNGS[-1:]
        for rung in rungs:
            resume = ["--resume"] if rung != rungs[0] else []
            run(arguments, "run", place / "run.json", *words, *resume, *(["--until", rung] if rung < RUNGS[-1] else []))
            loss = losses(output)[-1]
            trial.report(loss, rung)
            if rung < RUNGS[-1] and trial.should_prune():
                raise optuna.TrialPruned
        return loss

    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3) if is_halving else optuna.pruners.NopPruner()
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.RandomSampler(seed), pruner=pruner)
    study.optimize(objective, n_trials=arguments.trials)
    return found(path.parent for path in place.glob("*/val.csv"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images"), parser.add_argument("labels")
    parser.add_argument("--trials", type=int, default=18)
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--binary", default=str(ROOT / "target/release/sconce"))
    arguments = parser.parse_args()
    print("| search | who | seed | wall, s | epochs | best loss |\n|---|---|---|---|---|---|", flush=True)
    for seed in arguments.seeds:
        for is_halving in (False, True):
            for name, search in (("sconce", ours), ("optuna", theirs)):
                with tempfile.TemporaryDirectory() as place:
                    place = Path(place)
                    (place / "run.json").write_text(json.dumps(manifest(arguments)))
                    began = time.perf_counter()
                    epochs, best = search(is_halving, seed, place, arguments)
                    wall = time.perf_counter() - began
                print(f"| {'halving' if is_halving else 'random'} | {name} | {seed} | {wall:.1f} | {epochs} | {best:.4f} |", flush=True)


if __name__ == "__main__":
    main()
