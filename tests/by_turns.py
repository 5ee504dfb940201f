"""How long two builds of the program take for the same work, on a machine whose speed changes from second to second.

usage: by_turns.py [--threads N] [--seconds S] [--pairs N] OLD NEW [SHAPE ...]

OLD and NEW are folders with a program and its plugins, as `target/release`. Both do the same work at the same time, each stopped while the
other one runs, for some 50 ms in turn: what the machine's other guests take, both lose. A pair is as much work as the old one does in S
seconds; the ratio printed is NEW's time to OLD's, without what a run of one epoch takes, with twice its standard error over the pairs.
Medians of runs in turn, seconds apart, differ by 7 % between two copies of one program on the machine that this was written on.

Shapes are those of against_pytorch.py and three of a step that is as short as can be: `tiny`, `hook` with a hook, and `iso` with the same
hook in a process of its own. Needs no PyTorch.
"""
import argparse, json, math, os, pathlib, random, shutil, signal, statistics, subprocess, tempfile, time

import against_pytorch as peers

TURN = 0.05
HOOK = {"hook": "stop-on-nan", "config": {"dump": 0}}
TINY = peers.Shape(None, 1, (16,), 4, peers.mlp(16), 13000, 0, 0)
SHORT = {"tiny": [], "hook": [HOOK], "iso": [{**HOOK, "isolation": "process"}]}
NINE = "mlp wide tabular lenet autoencoder gpt vit gpt-8x256 resnet18".split()


class Work:
    """One shape, and where its manifests and data are."""

    def __init__(self, name, threads, root):
        self.shape = TINY if name in SHORT else peers.SHAPES[name]
        self.directory = root / name
        self.directory.mkdir()
        self.manifest = {
            "name": "work",
            "threads": threads,
            "model": self.shape.model,
            "data": peers.data(self.shape, self.directory, random.randbytes),
            "metrics": [],
            "optimizer": {"kind": "adamw", "learning_rate": 1e-4},
            "hooks": SHORT.get(name, []),
        }

    def begin(self, program, epochs):
        """Starts a run."""
        output = self.directory / f"run-{program.number}"
        shutil.rmtree(output, ignore_errors=True)
        train = {"epochs": epochs, "batch_size": self.shape.batch, "validate_every": 0, "test": False}
        manifest = self.manifest | {"output": str(output), "plugins": [str(program.folder)], "train": train}
        file = self.directory / f"{program.number}.json"
        file.write_text(json.dumps(manifest))
        command = [program.folder / "sconce", "run", file, "--quiet"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def epochs_of(self, program, seconds):
        """How many epochs take about this long."""

        def seconds_of(epochs):
            begin = time.perf_counter()
            if self.begin(program, epochs).wait():
                raise SystemExit(f"{program.folder} can't run {self.directory}/{program.number}.json")
            return time.perf_counter() - begin

        seconds_of(1)
        one, many = seconds_of(1), 2
        while (longer := seconds_of(many) - one) < 0.6 and many < 1000:
            many *= 3
        return max(1, round(seconds * (many - 1) / max(longer, 1e-3)))


class Program:
    def __init__(self, number, folder):
        self.number, self.folder = number, pathlib.Path(folder).resolve()


def children(number):
    """The processes that a process has started."""
    try:
        tasks = os.listdir(f"/proc/{number}/task")
        return [int(child) for task in tasks for child in open(f"/proc/{number}/task/{task}/children").read().split()]
    except OSError:
        return []


def send(process, what):
    """Sends a signal to a process and those that it has started: stopped after it, continued before it."""
    numbers = [process.pid, *children(process.pid)]
    for number in numbers if what == signal.SIGSTOP else reversed(numbers):
        try:
            os.kill(number, what)
        except OSError:
            pass


def by_turns(work, programs, epochs):
    """Seconds that each program ran for so many epochs."""
    times, running = [0.0 for _ in programs], {}
    waiting = random.sample(programs, len(programs))
    order = waiting[:]
    while waiting or running:
        for program in order:
            turn = TURN * random.uniform(0.7, 1.3)
            begin = time.perf_counter()
            if program in waiting:
                waiting.remove(program)
                running[program] = work.begin(program, epochs)
            elif program in running:
                send(running[program], signal.SIGCONT)
            else:
                # The other one goes on as before, so that caches are as cold after its pauses.
                time.sleep(turn)
                continue
            try:
                status = running[program].wait(turn)
            except subprocess.TimeoutExpired:
                send(running[program], signal.SIGSTOP)
            else:
                del running[program]
                if status:
                    raise SystemExit(f"{program.folder} ended with {status}")
            times[program.number] += time.perf_counter() - begin
    return times


def ratio(work, programs, epochs):
    """The logarithm of the second program's time to the first one's."""
    longer, shorter = by_turns(work, programs, epochs + 1), by_turns(work, programs, 1)
    old, new = (long - short for long, short in zip(longer, shorter))
    return math.log(new / old)


def with_error(logarithms):
    error = statistics.stdev(logarithms) / math.sqrt(len(logarithms)) if len(logarithms) > 1 else math.nan
    return statistics.mean(logarithms), error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("shapes", nargs="*", default=NINE)
    arguments = parser.parse_args()
    programs = [Program(0, arguments.old), Program(1, arguments.new)]
    found = []
    with tempfile.TemporaryDirectory() as root:
        for name in arguments.shapes:
            work = Work(name, arguments.threads, pathlib.Path(root))
            epochs = work.epochs_of(programs[0], arguments.seconds)
            pairs = [ratio(work, programs, epochs) for _ in range(arguments.pairs)]
            middle, error = with_error(pairs)
            found.append((middle, error))
            each = " ".join(f"{math.exp(pair):.3f}" for pair in pairs)
            print(f"{name:12} {math.exp(middle):.3f} ± {2 * error:.3f}  ({each})", flush=True)
    middle = statistics.mean(middle for middle, _ in found)
    error = math.sqrt(sum(error * error for _, error in found)) / len(found)
    print(f"{'all':12} {math.exp(middle):.3f} ± {2 * error:.3f}")


if __name__ == "__main__":
    main()
