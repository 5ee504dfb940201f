"""A whole job of ours and MMEngine's in turn: seconds per epoch, their ratio, validation accuracy.

usage: against_mmengine.py [--rounds 3] [--epochs 3] [--threads 2] [--bare]

Both train the LeNet of `benches/lenet_job.json` on the first 8,000 of the 10,000 MNIST images of ../shared/data with AdamW at
1e-3 and batches of 64, validate on the other 2,000 after each epoch, print a line every 50 iterations, save a checkpoint
each epoch and keep and evaluate an exponential moving average of the weights; with `--bare` no hooks at all. MMEngine's
job is `mmengine_job.py` (of ../shared/peers, or PEERS). A B A B …, medians over the rounds. Python must be one that has
torch and mmengine; the machine otherwise idle. Needs `cargo build --release`, or SCONCE, another binary.

Ours counts from the run's beginning to its end, the first batch's preparation and the last checkpoint included;
MMEngine's from `before_train` to `after_train`. Ours brings each checkpoint to the disk before it goes on.
"""
import argparse, gzip, json, os, pathlib, shutil, statistics, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = pathlib.Path(os.environ.get("PEERS", ROOT / "../shared/peers"))
JOB = ROOT / "tests/benches/lenet_job.json"


def split(directory):
    """The data as MMEngine's job splits it, in files of their own: `data` of the manifest."""
    data, parts = ROOT / "../shared/data", {}
    for name, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        content = gzip.open(data / f"mnist-10k-{name}-ubyte.gz").read()
        for part, first, last in (("train", 0, 8000), ("val", 8000, 10000)):
            path = pathlib.Path(directory) / f"{part}-{name}-ubyte"
            count = (last - first).to_bytes(4, "big")
            path.write_bytes(content[:4] + count + content[8:header] + content[header + first * size : header + last * size])
            parts[part, name[:6]] = str(path)
    own = {key: parts["val", key] for key in ("images", "labels")}
    return {"kind": "idx", "images": parts["train", "images"], "labels": parts["train", "labels"], "val": own}


def ours(arguments, environment, data):
    """`run.json` of a run in a directory of its own."""
    output = tempfile.mkdtemp()
    sconce = os.environ.get("SCONCE", str(ROOT / "target/release/sconce"))
    command = [sconce, "run", str(JOB), "--output", output, "--set", f"train.epochs={arguments.epochs}"]
    command += ["--set", f"data={json.dumps(data)}"]
    if arguments.bare:
        command += ["--set", "hooks=[]"]
    finished = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if finished.returncode != 0:
        sys.exit(f"{command} failed\n{finished.stderr}")
    record = json.loads((pathlib.Path(output) / "run.json").read_text())
    shutil.rmtree(output)
    return record


def theirs(arguments):
    command = [sys.executable, str(PEERS / "mmengine_job.py"), str(arguments.epochs), "--threads", str(arguments.threads)]
    if arguments.bare:
        command.append("--bare")
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        sys.exit(f"{command} failed\n{finished.stderr}")
    return json.loads(finished.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bare", action="store_true")
    arguments = parser.parse_args()
    threads = str(arguments.threads)
    environment = {"CANDLE_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads}
    own, peer, accuracy, their_accuracy, hooks = [], [], [], [], {}
    print("| round | ours, s/epoch | MMEngine, s/epoch | ratio | our accuracy | MMEngine's |\n|---|---|---|---|---|---|")
    directory = tempfile.mkdtemp()
    data = split(directory)
    for round_ in range(arguments.rounds):
        mine, other = ours(arguments, environment, data), theirs(arguments)
        own.append(mine["seconds"] / arguments.epochs)
        peer.append(other["seconds_per_epoch"])
        accuracy.append(mine["metrics"]["val"]["accuracy"])
        their_accuracy.append(other["val_acc"])
        for hook in mine["profile"]["train"]["hooks"]:
            hooks.setdefault(hook["name"], []).append(1e3 * hook["seconds"] / mine["updates"])
        print(
            f"| {round_ + 1} | {own[-1]:.3f} | {peer[-1]:.3f} | {own[-1] / peer[-1]:.3f} "
            f"| {accuracy[-1]:.4f} | {their_accuracy[-1]:.4f} |",
            flush=True,
        )
    shutil.rmtree(directory)
    median = statistics.median
    print(
        f"| median | {median(own):.3f} | {median(peer):.3f} | **{median(own) / median(peer):.3f}** "
        f"| {median(accuracy):.4f} | {median(their_accuracy):.4f} |"
    )
    for name, times in hooks.items():
        print(f"hook `{name}`: {median(times):.3f} ms for each update, in training")


main()
