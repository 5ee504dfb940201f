"""What the usual recipes cost beside a plain step: gradient clipping, accumulation, checks for numbers that are not finite, hooks at modules,
averages of the weights, `bf16`. Each is the same manifest with one thing more; all run in turn, round by round. A line for each: ms a step, its
ratio to the plain one, peak memory, and whether weights have the same bits as the plain run's at the end.

usage: tests/recipes.py [--shapes gpt-8x256,resnet18] [--rounds 3] [--threads 2] [--binary FILE]    Needs `cargo build --release`.
"""
import argparse, hashlib, json, pathlib, random, statistics, tempfile

import against_pytorch as steps

CSV = {"hook": "csv", "config": {"variables": ["iteration_time/mean", "data_time/mean"]}}
RECIPES = {
    "plain": {},
    "`grad-clip` of norm 1": {"hooks": [{"hook": "grad-clip", "config": {"max_norm": 1.0}}]},
    "`grad-clip` that never clips": {"hooks": [{"hook": "grad-clip", "config": {"max_norm": 1e9}}]},
    "`accumulate` 2": {"train": {"accumulate": 2}},
    "`check_finite`": {"train": {"check_finite": True}},
    "`stop-on-nan`": {"hooks": ["stop-on-nan"]},
    "`activation-stats` each 10": {"hooks": [{"hook": "activation-stats", "config": {"every": 10}}]},
    "`ema`": {"hooks": ["ema"]},
    "`recompute`": {"model": {"recompute": True}},
    "`moments` bf16": {"optimizer": {"moments": "bf16"}},
    "`precision` bf16": {"precision": "bf16"},
}


def manifest(shape, recipe, arguments, directory):
    seeded = random.Random(1)
    steps.random.seed(1)
    common = {
        "name": "step", "output": "run", "threads": arguments.threads, "model": shape.model, "metrics": [],
        "plugins": [str(pathlib.Path(arguments.binary).resolve().parent)], "data": steps.data(shape, directory, seeded.randbytes),
        "optimizer": {"kind": "adamw", "learning_rate": 1e-3},
        "train": {"epochs": 3, "batch_size": shape.batch, "validate_every": 0, "test": False},
    }
    for key, value in recipe.items():
        common[key] = {**common.get(key, {}), **value} if isinstance(value, dict) else value
    common["hooks"] = [{"hook": "iteration-timer", "config": {"log": False, "warm_up": 0}}, CSV, *common.get("hooks", [])]
    return common


def measured(shape, recipe, arguments):
    """Milliseconds of a step, megabytes, and a digest of the weights."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "step.json").write_text(json.dumps(manifest(shape, recipe, arguments, directory)))
        _, memory = steps.run([arguments.binary, "run", str(directory / "step.json"), "--quiet"], {})
        head, *rows = (line.split(",") for line in (directory / "run/train.csv").read_text().splitlines())
        of = lambda row, column: 1e3 * float(row[head.index(column)])
        times = [of(row, "iteration_time/mean") - of(row, "data_time/mean") for row in rows[1:]]
        return statistics.median(times), memory, hashlib.sha256((directory / "run/weights.safetensors").read_bytes()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=["gpt-8x256", "resnet18"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--binary", default=str(steps.ROOT / "target/release/sconce"))
    arguments = parser.parse_args()
    for name in arguments.shapes:
        found = {recipe: [] for recipe in RECIPES}
        # The first process finds cold memory.
        measured(steps.SHAPES[name], {}, arguments)
        for _ in range(arguments.rounds):
            # The same noise for all, so that weights can be compared.
            for recipe, more in RECIPES.items():
                if recipe == "`recompute`" and "hidden" in steps.SHAPES[name].model:
                    continue
                found[recipe].append(measured(steps.SHAPES[name], more, arguments))
        print(f"\n{name}\n\n| recipe | ms | to plain | MB | bits |\n|---|---|---|---|---|")
        plain = statistics.median(ms for ms, _, _ in found["plain"])
        for recipe, rounds in found.items():
            if not rounds:
                continue
            ms, memory = (statistics.median(values) for values in list(zip(*rounds))[:2])
            same = "the same" if rounds[0][2] == found["plain"][0][2] else "others"
            print(f"| {recipe} | {ms:.1f} | {ms / plain:.2f} | {memory:.0f} | {same} |", flush=True)


if __name__ == "__main__":
    main()
