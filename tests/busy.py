"""Our training steps on a machine with other work: mean times beside busy processes, and beside a second training.

usage: busy.py [--rounds 3] [--seconds 3] [--twice] [--other BINARY] [TASK ...] [--neighbours 0 1 2 4]

For each task and each number of busy processes (a loop that computes, `nice` 0) it runs `target/release/step` with one thread
and with all processors' threads in turn, and PyTorch's step (../shared/peers/torch_tasks.py, or PEERS) with as many threads
where this Python has torch. What is printed are means of whole steps, since a step that waits for a thread which the system doesn't run
is rare and long, and the ratio of the means, "all threads" to "one thread", of the same minutes. `--twice` lets two trainings run side by
side, each with all threads, instead of busy loops. `--other` names another `step` to measure in turn.
"""
import argparse, importlib.util, json, os, pathlib, statistics, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = pathlib.Path(os.environ.get("PEERS", ROOT / "../shared/peers"))
# Milliseconds of a quiet step with all threads, for the number of steps that fill some seconds.
ABOUT = {"mlp": 0.5, "lenet": 12, "gpt": 28}


def start(command, threads):
    names = ("CANDLE_NUM_THREADS", "RAYON_NUM_THREADS")
    return subprocess.Popen(command, env={**os.environ, **dict.fromkeys(names, str(threads))}, stdout=subprocess.PIPE, text=True)


def mean(process):
    line, _ = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{process.args} failed")
    return json.loads(line)["mean_ms"]


def beside(count, measure):
    """What `measure` gives while that many processes compute."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        return measure()
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(ABOUT))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--other")
    parser.add_argument("--no-torch", action="store_true")
    arguments = parser.parse_args()
    ours = os.environ.get("STEP", str(ROOT / "target/release/step"))
    if "STEP" not in os.environ:
        build = ["cargo", "build", "--release", "--quiet", "-p", "sconce-tests", "--bin", "step"]
        subprocess.run(build, cwd=ROOT, check=True)
    cores = len(os.sched_getaffinity(0))
    torch = not arguments.no_torch and importlib.util.find_spec("torch") and PEERS.is_dir()
    command = lambda task: [ours, task, str(max(10, int(arguments.seconds * 1e3 / ABOUT[task])))]
    columns = {"one": lambda task: mean(start(command(task), 1)), "all": lambda task: mean(start(command(task), cores))}
    if arguments.other:
        columns["other"] = lambda task: mean(start([arguments.other, *command(task)[1:]], cores))
    if torch:
        peer = lambda task: [sys.executable, str(PEERS / "torch_tasks.py"), task, command(task)[2], "--threads", str(cores)]
        columns["PyTorch"] = lambda task: mean(start(peer(task), cores))
    names = {"one": "one thread, ms", "all": f"{cores} threads, ms", "other": "other, ms", "PyTorch": "PyTorch, ms"}
    print(f"| task | beside | {' | '.join(names[column] for column in columns)} | {cores} threads / one |")
    print("|---" * (len(columns) + 3) + "|")
    for task in arguments.tasks:
        for count in [1] if arguments.twice else arguments.neighbours:
            times = {column: [] for column in columns}
            for _ in range(arguments.rounds):
                for column, measure in columns.items():
                    if arguments.twice:
                        # Each beside another of its own kind.
                        kind = 1 if column == "one" else cores
                        second = start([*command(task)[:2], str(10**9)], kind)
                        times[column].append(measure(task))
                        second.kill()
                        second.wait()
                    else:
                        times[column].append(beside(count, lambda: measure(task)))
            means = {column: statistics.fmean(values) for column, values in times.items()}
            neighbours = "a second training" if arguments.twice else f"{count} busy"
            figures = " | ".join(f"{value:.3f}" for value in means.values())
            print(f"| {task} | {neighbours} | {figures} | **{means['all'] / means['one']:.2f}** |", flush=True)


main()
