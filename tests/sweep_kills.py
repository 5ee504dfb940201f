"""A sweep of 64 trials whose process is killed at random places and started again: its results beside those of a sweep that nothing
disturbs, with one, two and four trials at once. What has to be equal is everything but how long trials took.

usage: tests/sweep_kills.py [--trials 64] [--kills 20] [--seed 1] [--binary FILE]
"""
import argparse, json, random, signal, subprocess, tempfile, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 4  # The column of `results.csv` that says how long a trial took.


def manifest(binary):
    return {
        "seed": 3, "threads": 1, "plugins": [str(binary.parent)], "hooks": ["csv"],
        "model": {"kind": "mlp", "hidden": [16]}, "data": {"kind": "synthetic-digits", "train": 512, "val": 128, "test": 0, "size": 16},
        "optimizer": {"kind": "adamw", "learning_rate": 1e-3}, "train": {"epochs": 9, "batch_size": 32, "test": False},
    }


def sweep(output, trials, parallel):
    return {
        "run": "run.json", "output": output, "metric": "val/loss", "threads": 1, "trials": trials, "seed": 5, "parallel": parallel,
        "random": {"optimizer.learning_rate": {"log": [1e-4, 1e-1]}, "model.hidden": {"of": [[8], [16], [32, 16]]}},
        "halving": {"first": 1, "factor": 3},
    }


def outcome(place, output):
    """The table without times, and each trial's losses."""
    table = [line.split(",") for line in (place / output / "results.csv").read_text().splitlines()]
    rows = [",".join(cells[:SECONDS] + cells[SECONDS + 1:]) for cells in table]
    return rows, {file.parent.name: file.read_bytes() for file in sorted((place / output).glob("*/val.csv"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", default=str(ROOT / "target/release/sconce"))
    arguments = parser.parse_args()
    binary, drawn = Path(arguments.binary).resolve(), random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        (place / "run.json").write_text(json.dumps(manifest(binary)))
        for output, parallel in (("one", 1), ("two", 2), ("four", 4), ("killed", 2)):
            (place / f"{output}.json").write_text(json.dumps(sweep(output, arguments.trials, parallel)))
        began = time.monotonic()
        for output in ("one", "two", "four"):
            subprocess.run([binary, "sweep", f"{output}.json"], cwd=place, check=True, stdout=subprocess.DEVNULL)
            print(f"{output} at once: {time.monotonic() - began:.1f} s since the start", flush=True)
        whole = (time.monotonic() - began) / 3
        kills = 0
        for _ in range(arguments.kills):
            with subprocess.Popen([binary, "sweep", "killed.json"], cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
                try:
                    run.wait(drawn.uniform(0.05, 2.0 * whole / arguments.kills))
                except subprocess.TimeoutExpired:
                    run.send_signal(signal.SIGKILL)
                    kills += 1
        subprocess.run([binary, "sweep", "killed.json"], cwd=place, check=True, stdout=subprocess.DEVNULL)
        expected = outcome(place, "one")
        for output in ("two", "four", "killed"):
            assert outcome(place, output) == expected, f"`{output}` has come to something else"
        print(f"killed {kills} times; {len(expected[1])} trials, the same results with 1, 2 and 4 at once; the best: {expected[0][1]}")


if __name__ == "__main__":
    main()
