"""What a run costs at the start and per iteration, as hooks, tensors of parameters and manifest entries grow.

usage: growth.py [--sconce target/release/sconce] [--plugins target/release] [--repeat 3]

Cost must grow linearly: the last column, the cost per unit beyond the smallest size, must not. Each row is the
least of some repetitions; an iteration's cost is the difference of a long and a short run. The machine otherwise idle.
"""
import argparse, json, pathlib, subprocess, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def manifest(directory, layers, hooks, iterations):
    linear = {"kind": "linear", "outputs": 4, "bias": True}
    return {
        "seed": 1,
        "threads": 1,
        "output": str(directory / "out"),
        "model": {"kind": "sequential", "layers": [linear] * (layers - 1) + [{"kind": "linear"}]},
        "data": {"kind": "two-moons", "train": 4 * iterations, "val": 4},
        "optimizer": {"kind": "sgd", "learning_rate": 0.001},
        "train": {"epochs": 1, "batch_size": 4, "test": False},
        "hooks": [{"hook": "noop", "name": f"noop-{index}"} for index in range(hooks)],
    }


def seconds(arguments, layers, hooks, iterations):
    """The least wall-clock time of a whole process."""
    best = float("inf")
    for _ in range(arguments.repeat):
        with tempfile.TemporaryDirectory() as place:
            directory = pathlib.Path(place)
            file = directory / "run.json"
            file.write_text(json.dumps(manifest(directory, layers, hooks, iterations)))
            command = [arguments.sconce, "run", str(file), "--plugins", arguments.plugins]
            start = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True)
            best = min(best, time.perf_counter() - start)
            if done.returncode != 0:
                raise SystemExit(done.stderr[-3000:])
    return best


def table(arguments, what, sizes, run, long):
    print(f"\n| {what} | start, ms | iteration, µs | start, µs per {what[:-1]} | iteration, ns per {what[:-1]} |")
    print("|---|---|---|---|---|")
    first = None
    for size in sizes:
        few, many = 2, long(size)
        start = run(size, few)
        iteration = (run(size, many) - start) / (many - few)
        if first is None:
            first = (size, start, iteration)
            print(f"| {size} | {start * 1e3:.1f} | {iteration * 1e6:.1f} | | |", flush=True)
            continue
        more = size - first[0]
        print(
            f"| {size} | {start * 1e3:.1f} | {iteration * 1e6:.1f} | {(start - first[1]) / more * 1e6:.1f} "
            f"| {(iteration - first[2]) / more * 1e9:.0f} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sconce", default=str(ROOT / "target/release/sconce"))
    parser.add_argument("--plugins", default=str(ROOT / "target/release"))
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    run = lambda size, iterations: seconds(arguments, 2, size, iterations)
    table(arguments, "hooks", (1, 10, 100, 1000), run, lambda size: 5000 if size < 1000 else 2000)
    run = lambda size, iterations: seconds(arguments, size // 2, 0, iterations)
    table(arguments, "tensors", (10, 100, 1000, 10000), run, lambda size: max(20, 200000 // size))


main()
