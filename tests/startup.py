"""Milliseconds from the start of `sconce run examples/digits/run.json` to the end of its first step.

usage: startup.py [--rounds 20]

The clock starts before the process is made and stops at the console's line of the first iteration; plugins are
loaded, the data are drawn, nothing is warm but the disk's cache. Needs `cargo build --release`, or SCONCE, another binary.
"""
import argparse, os, pathlib, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def once(directory):
    sconce = os.environ.get("SCONCE", str(ROOT / "target/release/sconce"))
    hooks = '[{"hook":"console","config":{"interval":1}},"csv",{"hook":"stop-after","config":{"minutes":10}}]'
    command = [sconce, "run", str(ROOT / "examples/digits/run.json"), "--output", directory, "--overwrite"]
    began = time.perf_counter()
    process = subprocess.Popen(command + ["--set", f"hooks={hooks}"], stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "epoch 1" in line and "loss" in line:
            seconds = time.perf_counter() - began
            process.kill()
            process.wait()
            return 1e3 * seconds
    sys.exit("no iteration's line in\n" + "".join(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        times = sorted(once(f"{directory}/{round_}") for round_ in range(rounds))
    print(f"start to first step: median {statistics.median(times):.0f} ms, from {times[0]:.0f} to {times[-1]:.0f} ({rounds} rounds)")


main()
