"""How many instructions a training step of small models takes, on one thread: counted by valgrind, so that the number is the same whatever
else the machine is doing. Fails where it is more than 1.1 times what is recorded.

usage: step_instructions.py [--binary FILE] [--shapes online,lstm] [--functions]

A step is the difference of two runs, one with two passes over the same data more; hooks and validation are off. Valgrind's processor has
AVX2, wherever it runs. `--functions` lists where the instructions are. Shapes are those of against_pytorch.py with fewer steps.
"""
import argparse, json, pathlib, random, re, subprocess, sys, tempfile
from against_pytorch import ROOT, SHAPES, data

# Steps of a pass, and instructions of a step when they were recorded. Compilers differ by some percent; a tenth more is a fault of ours.
RECORDED = {
    "online": (50, 806_000),
    "mlp": (3, 8_710_000),
}
MORE_PASSES = 2


def count(binary, directory, passes):
    """Instructions of a run, all and by function."""
    manifest = json.loads((directory / "base.json").read_text())
    manifest["output"] = f"run-{passes}"
    manifest["train"]["epochs"] = passes
    (directory / f"{passes}.json").write_text(json.dumps(manifest))
    counted = directory / f"counted-{passes}"
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counted}", binary, "run", str(directory / f"{passes}.json"), "--quiet"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(ended.stdout + ended.stderr)
    total = int(re.search(r"Collected : (\d+)", ended.stderr)[1])
    return total, counted


def by_function(counted):
    listed = subprocess.run(["callgrind_annotate", "--threshold=99.9", str(counted)], capture_output=True, text=True, check=True).stdout
    found = {}
    for instructions, name in re.findall(r"^\s*([\d,]+) \(.*?\)\s+\S*?:(.*?)(?: \[.*)?$", listed, re.MULTILINE):
        found[name] = found.get(name, 0) + int(instructions.replace(",", ""))
    return found


def step_of(name, steps, binary, has_functions):
    """Instructions of a step of a shape, and those of the functions that have the most."""
    shape = SHAPES[name]
    shape.steps = steps
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        random.seed(1)
        manifest = {
            "name": "step", "plugins": [str(binary.parent)], "threads": 1, "model": shape.model, "data": data(shape, directory, random.randbytes),
            "metrics": [], "optimizer": {"kind": "adamw", "learning_rate": 1e-3},
            "train": {"batch_size": shape.batch, "validate_every": 0, "test": False, "loader_threads": 0},
        }
        (directory / "base.json").write_text(json.dumps(manifest))
        (few, first), (many, second) = (count(binary, directory, passes) for passes in (1, 1 + MORE_PASSES))
        counted = MORE_PASSES * steps
        functions = []
        if has_functions:
            before = by_function(first)
            each = {function: (count - before.get(function, 0)) // counted for function, count in by_function(second).items()}
            functions = sorted(each.items(), key=lambda item: -item[1])[:25]
        return (many - few) // counted, functions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/sconce")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=list(RECORDED))
    parser.add_argument("--functions", action="store_true")
    arguments = parser.parse_args()
    above = []
    for name in arguments.shapes:
        steps, recorded = RECORDED.get(name, (1, None))
        found, functions = step_of(name, steps, arguments.binary.resolve(), arguments.functions)
        ratio = f", {found / recorded:.3f} of what is recorded" if recorded else ""
        print(f"a step of {name:10} {found:12,} instructions{ratio}", flush=True)
        for function, instructions in functions:
            print(f"    {instructions:12,} {function}")
        if recorded and found > 1.1 * recorded:
            above.append(name)
    if above:
        sys.exit(f"more than 1.1 times what is recorded: {', '.join(above)}")


if __name__ == "__main__":
    main()
