#!/usr/bin/env python3
"""The same bits on any number of ranks, by any transport.

    tests/ranks.py SCONCE PLUGINS [--mpi NAME=DIRECTORY ...] [--long]

Trains a convolutional network and a language model with dropout and a residual network with batch norm, with a cosine
schedule, clipping and averages, in updates of 8 and of 12 batches: in one process, by `sconce launch`, and by the mpirun of
each MPI whose plugin lies in a directory. Prints a hash of everything trained and of all metrics; ends with 1 if one
differs. Without `--long`, on fewer ranks.
"""

import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODELS = {
    "lenet": (
        {"kind": "convnet", "channels": [4, 8], "hidden": [16], "dropout": 0.5},
        {"kind": "synthetic-digits", "train": 1003, "val": 60, "test": 50, "size": 20},
        ["accuracy", "confusion-matrix"],
    ),
    "gpt": (
        {"kind": "gpt", "layers": 2, "heads": 2, "width": 16, "dropout": 0.1},
        {"kind": "grammar", "context": 16, "train": 1003, "val": 60, "test": 50},
        ["accuracy", "perplexity"],
    ),
    "resnet": (
        {"kind": "resnet", "width": 4, "blocks": [1, 1]},
        {"kind": "synthetic-digits", "train": 1003, "val": 60, "test": 50, "size": 16},
        ["accuracy", "f1"],
    ),
}
HOOKS = [
    {"hook": "lr-schedule", "config": {"schedule": {"kind": "cosine"}}},
    {"hook": "grad-clip", "config": {"max_norm": 0.5}},
    "ema",
]


def manifest(model, accumulate, plugins):
    network, data, metrics = MODELS[model]
    return {
        "name": model,
        "seed": 5,
        "threads": 1,
        "plugins": [str(plugins)],
        "model": network,
        "data": data,
        "metrics": metrics,
        "optimizer": {"kind": "adamw", "learning_rate": 0.003},
        "train": {"epochs": 2, "batch_size": 16, "accumulate": accumulate},
        "distributed": {"batches": "update", "timeout": 120},
        "hooks": HOOKS,
    }


def launched(launcher, ranks, directory):
    """The words before `sconce run`, and the plugins' directories for this launcher."""
    if launcher == "openmpi":
        return ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)], [directory]
    return [f"mpirun.{launcher}", "-n", str(ranks)], [directory]


def result(output):
    """A hash of the trained weights and of all metrics."""
    found = hashlib.sha256()
    for file in sorted(output.glob("*.safetensors")):
        found.update(file.read_bytes())
    record = json.loads((output / "run.json").read_text())
    found.update(json.dumps(record["metrics"], sort_keys=True).encode())
    return found.hexdigest()[:16]


def run(sconce, launcher, directory, ranks, model, accumulate, plugins):
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        file = place / "run.json"
        file.write_text(json.dumps(manifest(model, accumulate, plugins)))
        arguments = [str(file), "--output", str(place / "out"), "--quiet"]
        if ranks == 1:
            command = [sconce, "run", *arguments]
        elif launcher == "sockets":
            command = [sconce, "launch", "-n", str(ranks), *arguments]
        else:
            words, directories = launched(launcher, ranks, directory)
            more = [word for each in directories for word in ("--plugins", str(each))]
            command = [*words, sconce, "run", *arguments, *more]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(command)}: {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return result(place / "out")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce")
    parser.add_argument("plugins", type=pathlib.Path)
    parser.add_argument("--mpi", action="append", default=[], metavar="NAME=DIRECTORY")
    parser.add_argument("--long", action="store_true", help="on up to 12 ranks")
    given = parser.parse_args()
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    os.environ.setdefault("OMPI_MCA_btl_vader_single_copy_mechanism", "none")
    launchers = [("sockets", None)]
    for each in given.mpi:
        name, _, directory = each.partition("=")
        launchers.append((name, pathlib.Path(directory).resolve()))
    # 12 batches on 5 and 8 ranks, 8 on 3: blocks that are no powers of two.
    cases = {8: [2, 4, 8, 3], 12: [3, 6, 12, 5, 8]} if given.long else {8: [2, 3]}
    is_same = True
    for model in MODELS:
        for accumulate, sizes in cases.items():
            plugins = given.plugins.resolve()
            expected = run(given.sconce, "", None, 1, model, accumulate, plugins)
            found = [f"1: {expected}"]
            for launcher, directory in launchers:
                for ranks in sizes:
                    print_hash = run(given.sconce, launcher, directory, ranks, model, accumulate, plugins)
                    is_same &= print_hash == expected
                    mark = "" if print_hash == expected else f" ({print_hash})"
                    found.append(f"{launcher} {ranks}{mark}")
            print(f"{model}, {accumulate} batches an update: {', '.join(found)}", flush=True)
    if not is_same:
        sys.exit("results differ")


if __name__ == "__main__":
    main()
