"""Our training steps on a machine with other work: mean times beside busy processes, and beside a second training.

usage: busy.py [--rounds 3] [--seconds 3] [--twice] [--binary FILE] [--other FILE] [--no-torch] [TASK ...] [--neighbours 0 1 2 4]

A task is a shape of `against_pytorch.py`, a manifest that the `sconce` binary runs as anyone would run it. For each task and each number
of busy processes (a loop that computes, `nice` 0) it is trained with one thread and with all processors' threads in turn, and by PyTorch
(../shared/peers/torch_tasks.py, or PEERS) with as many threads where this Python has torch. What is printed are means of whole
iterations, since one that waits for a thread which the system doesn't run is rare and long, and the ratio of the means, "all threads" to
"one thread", of the same minutes. `--twice` lets two trainings run side by side, each with all threads, instead of busy loops.
`--other` names another `sconce` to measure in turn. Needs `cargo build --release`.
"""
import argparse, contextlib, copy, importlib.util, os, pathlib, statistics, subprocess, sys, tempfile

import against_pytorch as steps

# Milliseconds of a quiet step with all threads, for the number of passes that fill some seconds.
ABOUT = {"mlp": 0.4, "lenet": 12, "gpt": 28}
ENDLESS = 10**6


def shape_of(task, seconds):
    """A shape whose passes fill so many seconds, for both."""
    shape = copy.copy(steps.SHAPES[task])
    shape.passes = max(1, round(seconds * 1e3 / ABOUT[task] / shape.steps))
    shape.peer_steps = shape.passes * shape.steps
    return shape


@contextlib.contextmanager
def loops(count):
    """That many processes compute."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in started:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def second(task, arguments):
    """Another training of the same kind."""
    shape = copy.copy(steps.SHAPES[task])
    shape.passes = ENDLESS
    with tempfile.TemporaryDirectory() as directory:
        command, environment = steps.command_of(shape, arguments, pathlib.Path(directory))
        training = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            training.kill()
            training.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(ABOUT))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--binary", default=str(steps.ROOT / "target/release/sconce"))
    parser.add_argument("--other")
    parser.add_argument("--no-torch", action="store_true")
    arguments = parser.parse_args()
    unknown = [task for task in arguments.tasks if task not in ABOUT]
    if unknown:
        parser.error(f"unknown tasks {unknown}; known: {', '.join(ABOUT)}")
    cores = len(os.sched_getaffinity(0))
    with_threads = lambda binary, threads: argparse.Namespace(binary=binary, threads=threads, precision="f32", set=[], instructions=None)
    columns = {
        "one thread, ms": (steps.ours, with_threads(arguments.binary, 1)),
        f"{cores} threads, ms": (steps.ours, with_threads(arguments.binary, cores)),
    }
    one, all_ = columns
    if arguments.other:
        columns["other, ms"] = (steps.ours, with_threads(arguments.other, cores))
    if not arguments.no_torch and importlib.util.find_spec("torch") and steps.PEERS.is_dir():
        columns["PyTorch, ms"] = (None, with_threads(arguments.binary, cores))
    print(f"| task | beside | {' | '.join(columns)} | {cores} threads / one |")
    print("|---" * (len(columns) + 3) + "|")
    for task in arguments.tasks:
        shape = shape_of(task, arguments.seconds)
        for count in [None] if arguments.twice else arguments.neighbours:
            times = {column: [] for column in columns}
            for _ in range(arguments.rounds):
                for column, (measure, how) in columns.items():
                    # Each beside another of its own kind.
                    with second(task, how) if count is None else loops(count):
                        found = measure(shape, how) if measure else steps.theirs("torch", task, shape, how)
                    times[column].append(found["mean"])
            means = {column: statistics.fmean(values) for column, values in times.items()}
            neighbours = "a second training" if count is None else f"{count} busy"
            figures = " | ".join(f"{value:.3f}" for value in means.values())
            print(f"| {task} | {neighbours} | {figures} | **{means[all_] / means[one]:.2f}** |", flush=True)


main()
