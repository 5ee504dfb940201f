"""How many instructions a training step of small models takes, on one thread: counted by valgrind, so that the number is the same whatever
else the machine is doing. Fails where it is more than 1.1 times what is recorded.

usage: step_instructions.py [--binary FILE] [--shapes online,lstm]

A step is the difference of two runs, one with two passes over the same data more; hooks and validation are off. Valgrind's processor has
AVX2, wherever it runs. Shapes are those of against_pytorch.py with fewer steps.
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
    """Instructions of a run of this many passes."""
    manifest = json.loads((directory / "base.json").read_text())
    manifest["output"] = f"run-{passes}"
    manifest["train"]["epochs"] = passes
    (directory / f"{passes}.json").write_text(json.dumps(manifest))
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory / 'counted'}", binary, "run", str(directory / f"{passes}.json"), "--quiet"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(ended.stdout + ended.stderr)
    return int(re.search(r"Collected : (\d+)", ended.stderr)[1])


def step_of(name, steps, binary):
    """Instructions of a step of a shape."""
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
        few, many = (count(binary, directory, passes) for passes in (1, 1 + MORE_PASSES))
        return (many - few) // (MORE_PASSES * steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/release/sconce")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=list(RECORDED))
    arguments = parser.parse_args()
    above = []
    for name in arguments.shapes:
        steps, recorded = RECORDED.get(name, (1, None))
        found = step_of(name, steps, arguments.binary.resolve())
        ratio = f", {found / recorded:.3f} of what is recorded" if recorded else ""
        print(f"a step of {name:10} {found:12,} instructions{ratio}", flush=True)
        if recorded and found > 1.1 * recorded:
            above.append(name)
    if above:
        sys.exit(f"more than 1.1 times what is recorded: {', '.join(above)}")


if __name__ == "__main__":
    main()
