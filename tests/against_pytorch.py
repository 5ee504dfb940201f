"""Our training steps and PyTorch's in turn, and the ratio of their medians.

usage: against_pytorch.py [--rounds 5] [--threads 2] [--batch N] [--instructions avx2] [TASK ...]

Builds `target/release/step`, then runs it and `torch_tasks.py` (of ../shared/peers, or PEERS) A B A B …, each for
about a second and a half, and prints the medians over the rounds: of whole steps, of ours by phase, and of the
peak memory of both processes. Python must be one that has torch; the machine otherwise idle.
`--instructions avx2` is for processors with AVX-512: it bounds the instructions of our own loops, of the products (a
build of its own, without the feature `avx512`) and PyTorch's. STEP names another binary of ours.
"""
import argparse, json, os, pathlib, statistics, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = pathlib.Path(os.environ.get("PEERS", ROOT / "../shared/peers"))
STEPS = {"mlp": (2000, 1500), "lenet": (120, 60), "gpt": (60, 40)}


def run(command, environment):
    """The JSON line that a process prints, and its peak memory in MB."""
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
    line = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command} failed")
    return json.loads(line), usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", default=list(STEPS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--instructions", default="avx512")
    arguments = parser.parse_args()
    step = os.environ.get("STEP", str(ROOT / "target/release/step"))
    if "STEP" not in os.environ:
        build = ["cargo", "build", "--release", "--quiet", "-p", "sconce-tests", "--bin", "step"]
        if arguments.instructions != "avx512":
            build += ["--no-default-features", "--target-dir", "target/avx2"]
            step = str(ROOT / "target/avx2/release/step")
        subprocess.run(build, cwd=ROOT, check=True)
    threads = str(arguments.threads)
    environment = {
        "CANDLE_NUM_THREADS": threads,
        "RAYON_NUM_THREADS": threads,
        "SCONCE_INSTRUCTIONS": arguments.instructions,
    }
    batch = [] if arguments.batch is None else [str(arguments.batch)]
    print("| task | ours, ms | forward | backward | update | PyTorch, ms | ratio | ours, MB | PyTorch, MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for task in arguments.tasks:
        ours, theirs, memory = [], [], []
        own_steps, their_steps = STEPS[task]
        for _ in range(arguments.rounds):
            mine, own_memory = run([step, task, str(own_steps), *batch], environment)
            command = [sys.executable, str(PEERS / "torch_tasks.py"), task, str(their_steps), "--threads", threads]
            if batch:
                command += ["--batch", *batch]
            limits = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
            peer, peer_memory = run(command, limits if arguments.instructions == "avx2" else {})
            ours.append(mine)
            theirs.append(peer["median_ms"])
            memory.append((own_memory, peer_memory))
        median = lambda key: statistics.median(round_[key] for round_ in ours)
        own, peer = median("median_ms"), statistics.median(theirs)
        phases = " | ".join(f"{median(key):.3f}" for key in ("forward_ms", "backward_ms", "update_ms"))
        own_memory, peer_memory = (statistics.median(column) for column in zip(*memory))
        print(
            f"| {task} | {own:.3f} | {phases} | {peer:.3f} | **{own / peer:.2f}** "
            f"| {own_memory:.0f} | {peer_memory:.0f} |",
            flush=True,
        )


main()
