#!/usr/bin/env python3
"""Random kills of ranks and of hooks' processes, with restarts: the same bits as undisturbed.

    tests/restarts.py SCONCE PLUGINS [--kills 100] [--seed 1]

Trains by `sconce launch --restarts` on one to three ranks, with averages in processes of their own and a checkpoint every few
iterations. While a run trains, a random process of it is killed after a random time, again and again; every other run may go
on with fewer ranks. Each run must end with 0 and the weights of one to which nothing happened. Ends with 1 if one differs.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time


def manifest(plugins):
    return {
        "name": "restarts",
        "seed": 3,
        "threads": 1,
        "plugins": [str(plugins)],
        "output": "out",
        "model": {"kind": "convnet", "channels": [4, 8], "hidden": [16], "dropout": 0.3},
        "data": {"kind": "synthetic-digits", "train": 1000, "val": 60, "test": 50, "size": 16},
        "optimizer": {"kind": "adamw", "learning_rate": 0.003},
        "train": {"epochs": 4, "batch_size": 8, "accumulate": 6},
        "distributed": {"batches": "update", "timeout": 60.0},
        "hooks": [
            {"hook": "lr-schedule", "config": {"schedule": {"kind": "cosine"}}},
            {"hook": "grad-clip", "config": {"max_norm": 0.5}},
            {"hook": "ema", "isolation": "process", "on_crash": "fail"},
            {"hook": "checkpoint", "config": {"iterations": 5, "keep_last": 2}},
        ],
    }


def children(process):
    """The processes that a process has started, and those that they have, with their command lines."""
    found = []
    for task in pathlib.Path(f"/proc/{process}/task").glob("*"):
        try:
            started = (task / "children").read_text().split()
        except OSError:
            continue
        for child in started:
            try:
                words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            found.append((int(child), words))
            found += children(child)
    return found


def result(place):
    return hashlib.sha256((place / "out/weights.safetensors").read_bytes()).hexdigest()


def struck_run(place, arguments, dice, most):
    """Runs with kills; returns what was killed, the exit code and what was printed."""
    log = open(place / "log", "w+")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCONCE_")}
    running = subprocess.Popen(arguments, cwd=place, stdout=log, stderr=log, env=environment)
    killed = []
    while running.poll() is None:
        time.sleep(dice.uniform(0.05, 1.2))
        alive = children(running.pid)
        ranks = [child for child, words in alive if "run" in words[1:2]]
        hooks = [child for child, words in alive if words[1:2] == ["hook-host"]]
        kind, chosen = dice.choice([("rank", ranks), ("hook", hooks)])
        if not chosen or len(killed) >= most or running.poll() is not None:
            continue
        try:
            os.kill(dice.choice(chosen), signal.SIGKILL)
            killed.append(kind)
        except ProcessLookupError:
            pass
    log.seek(0)
    return killed, running.returncode, log.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sconce", type=pathlib.Path)
    parser.add_argument("plugins", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sconce, plugins = options.sconce.resolve(), options.plugins.resolve()
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        plain = pathlib.Path(scratch) / "plain"
        plain.mkdir()
        text = json.dumps(manifest(plugins))
        (plain / "run.json").write_text(text)
        subprocess.run([sconce, "run", "run.json"], cwd=plain, check=True, capture_output=True)
        expected = result(plain)
        kills, runs, wrong = {"rank": 0, "hook": 0}, 0, 0
        while sum(kills.values()) < options.kills:
            place = pathlib.Path(scratch) / str(runs)
            place.mkdir()
            (place / "run.json").write_text(text)
            ranks = runs % 3 + 1
            arguments = [sconce, "launch", "-n", str(ranks), "--restarts", "40"]
            if runs % 2 == 1 and ranks > 1:
                arguments += ["--min-ranks", "1"]
            most = min(8, options.kills - sum(kills.values()))
            killed, code, said = struck_run(place, [*arguments, "run.json"], dice, most)
            for kind in killed:
                kills[kind] += 1
            # A hook's process that is killed when the hook is dropped has failed, after everything was written.
            is_done = code == 0 or (code == 4 and "when it was dropped" in said)
            is_same = is_done and result(place) == expected
            wrong += not is_same
            verdict = "same bits" if is_same else f"code {code}, OTHER BITS\n{said[-3000:]}"
            print(f"{ranks} ranks, {len(killed)} kills ({', '.join(killed)}), {said.count('restart ')} restarts: {verdict}", flush=True)
            runs += 1
    print(f"{runs - wrong} of {runs} runs with {kills['rank']} kills of ranks and {kills['hook']} of hooks' processes have the bits of the undisturbed one")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
