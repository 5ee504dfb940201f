"""Training steps of twelve shapes through manifests, beside PyTorch's and JAX's: the table of docs/performance.md.

usage: against_pytorch.py [--shapes mlp,vit|others] [--threads 2] [--rounds 3] [--peers torch,compile,jax] [--instructions avx2]
                          [--binary FILE] [--set model.recompute=true] [--phases] [--record FILE]
       against_pytorch.py --table FILE [--phases]

Each shape is a manifest over generated data, run by the `sconce` binary; the same model and batch runs in the peers' scripts of
../shared/peers (or PEERS). Ours and the peers run in turn, A B C A B C …, each in a process of its own; the table has the medians
over the rounds. Python must be one that has torch, and JAX if that is to be compared; the machine otherwise idle.

`--shapes others` are nineteen more (tests/other_shapes.py). In the table:

- *ms*: the median training step (forward, loss, backward, AdamW, reading the loss). Ours is the median iteration of the hook
  `iteration-timer`, which listens at no module, without its wait for data, since the peers have their batch at hand; *data* is that wait.
- *GFLOP/s*: the matrix work of a step, forward and backward, over its time; *of peak*: over the better of two large products, measured
  before the first shape and after the last: torch's `matmul` of 2048 × 2048, and the forward pass of linear layers of ours.
- *MB*: peak memory of the process, ours with all samples. `--phases` adds forward, loss, backward and update, the means of `run.json`.

`--record FILE` appends each round to a file, one JSON line each, and `--table FILE` prints the table of such a file: for a machine
that is idle for short times only. `--instructions avx2` limits our own loops, the peers, and nothing of the crate `gemm`: for that,
build a binary with `--no-default-features --features mimalloc`. Needs `cargo build --release`.
"""
import argparse, array, json, math, os, pathlib, random, statistics, subprocess, sys, tempfile, time
from other_shapes import DIGIT, IMAGE, OTHERS, PEERS, mobilenet, vgg

ROOT = pathlib.Path(__file__).resolve().parent.parent


def mlp(*hidden):
    return {"kind": "mlp", "hidden": hidden}


class Shape:
    """A model with its data: `steps` a pass of ours, `passes` after the first; `peer_steps` of the others."""

    def __init__(self, gflop, batch, sample, classes, model, steps, passes, peer_steps):
        self.gflop, self.batch, self.sample, self.classes, self.model = gflop, batch, sample, classes, model
        self.steps, self.passes, self.peer_steps = steps, passes, peer_steps


SHAPES = {  # gflop: None is asked of the peer
    "mlp": Shape(0.0781, 64, DIGIT, 10, mlp(256), 100, 40, 1500),
    "lenet": Shape(1.842, 64, DIGIT, 10, {"kind": "convnet", "conv_activation": "identity", "hidden": [1024]}, 30, 5, 50),
    "gpt": Shape(3.775, 12, 64, 256, {"kind": "gpt"}, 15, 5, 35),
    "online": Shape(None, 1, (784,), 10, mlp(256), 1000, 8, 1500),
    "wide": Shape(None, 128, (784,), 10, mlp(2048, 2048), 15, 4, 30),
    "tabular": Shape(None, 1024, (54,), 7, mlp(512, 512, 512, 512), 15, 4, 30),
    "autoencoder": Shape(None, 256, (784,), 0, mlp(512, 128, 32, 128, 512), 40, 4, 100),
    "vgg": Shape(None, 64, DIGIT, 10, vgg(32, 64, hidden=128), 10, 4, 20),
    "resnet18": Shape(None, 32, IMAGE, 10, {"kind": "resnet", "width": 32}, 4, 3, 8),
    "depthwise": Shape(None, 64, IMAGE, 10, mobilenet(32, 64, 128, 128, 256, 256), 4, 3, 10),
    "vit": Shape(None, 32, IMAGE, 10, {"kind": "vit", "patch": 4, "width": 192, "layers": 6, "heads": 3}, 4, 3, 8),
    "gpt-8x256": Shape(None, 4, 256, 256, {"kind": "gpt", "layers": 8, "heads": 8, "width": 256}, 3, 3, 6),
}
SHAPES |= {name: Shape(None, *shape) for name, shape in OTHERS.items()}
JAX = ("mlp", "lenet", "gpt", "tabular", "vgg")
PHASES = ("forward", "loss", "backward", "update")
PEAK = Shape(None, 1024, (2048,), 10, mlp(2048, 2048, 2048), 2, 2, 0)
TORCH_PEAK = """
import json, sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
a, b, best = torch.randn(2048, 2048), torch.randn(2048, 2048), 1e9
for _ in range(12):
    t = time.perf_counter(); a @ b; best = min(best, time.perf_counter() - t)
print(json.dumps({"gflops": 2 * 2048**3 / best / 1e9}))
"""


def npy(path, shape, block, kind):
    """Writes an array that repeats the elements of `block`: this process stays small, as its memory counts for its children."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    left = math.prod(shape) * block.itemsize
    with path.open("wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        while left > 0:
            left -= file.write(block.tobytes()[:left])


def data(shape, directory, noise_of=os.urandom):
    """Writes noise for one pass; `data` of the manifest. `noise_of` gives a number of bytes."""
    samples = shape.batch * shape.steps
    if isinstance(shape.sample, int):
        (directory / "text").write_bytes(noise_of(samples * shape.sample + 1))
        return {"kind": "text", "file": "text", "context": shape.sample}
    noise = array.array("f", (random.gauss(0, 1) for _ in range(100_003)))
    npy(directory / "x.npy", (samples, *shape.sample), noise, "<f4")
    npy(directory / "y.npy", (samples,), array.array("B", range(max(shape.classes, 1))), "|u1")
    arrays = {"kind": "npy", "inputs": "x.npy"}
    return {**arrays, "targets": "y.npy"} if shape.classes else arrays


def run(command, environment):
    """What a process prints, and its peak memory in MB."""
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command} failed")
    return output, usage.ru_maxrss / 1024


def command_of(shape, arguments, directory):
    """Writes a manifest and its data; the command that runs it, and its environment."""
    manifest = {
        "name": "step",
        "output": "run",
        "plugins": [str(pathlib.Path(arguments.binary).resolve().parent)],
        "threads": arguments.threads,
        "precision": arguments.precision,
        "model": shape.model,
        "data": data(shape, directory),
        "metrics": [],
        "optimizer": {"kind": "adamw", "learning_rate": 1e-3},
        "train": {"epochs": 1 + shape.passes, "batch_size": shape.batch, "validate_every": 0, "test": False},
        "hooks": [{"hook": "iteration-timer", "config": {"log": False, "warm_up": 0}}, {"hook": "csv"}],
    }
    (directory / "step.json").write_text(json.dumps(manifest))
    command = [arguments.binary, "run", str(directory / "step.json"), "--quiet"]
    for assignment in arguments.set if shape is not PEAK else []:
        command += ["--set", assignment]
    return command, {"SCONCE_INSTRUCTIONS": arguments.instructions} if arguments.instructions else {}


def ours(shape, arguments):
    """The times of a run, in ms a step."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        _, memory = run(*command_of(shape, arguments, directory))
        head, *rows = (line.split(",") for line in (directory / "run/train.csv").read_text().splitlines())
        profile = json.loads((directory / "run/run.json").read_text())["profile"]["train"]

    def column(name):
        index = head.index(name)
        return [1e3 * float(row[index]) for row in rows[1:]]

    iterations = shape.steps * (1 + shape.passes)
    found = {part: 1e3 * profile[part] / iterations for part in PHASES}
    waiting = statistics.median(column("data_time/median"))
    median = statistics.median(column("iteration_time/median"))
    return {"ms": median - waiting, "mean": statistics.fmean(column("iteration_time/mean")), "data": waiting, "mb": memory, **found}


def theirs(peer, name, shape, arguments):
    """The line that a peer's script prints."""
    command, environment = [sys.executable], {}
    threads = str(arguments.threads)
    limited = arguments.instructions == "avx2"
    if peer == "jax":
        command = ["taskset", "-c", f"0-{arguments.threads - 1}", sys.executable, str(PEERS / "jax_tasks.py"), name, str(shape.peer_steps)]
        environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2" if limited else ""}
    else:
        script = PEERS / ("torch_tasks.py" if name in ("mlp", "lenet", "gpt") else "torch_shapes.py")
        script = ROOT / "tests/other_shapes.py" if name in OTHERS else script
        command += [str(script), name, str(shape.peer_steps), "--threads", threads]
        command += {"compile": ["--compile"], "autocast": ["--bf16"]}.get(peer, [])
        environment = torch_limits(arguments)
    output, memory = run(command, environment)
    found = json.loads(output.strip().splitlines()[-1])
    return {"ms": found["median_ms"], "mean": found.get("mean_ms"), "mb": memory, "gflop": found.get("gflop") or shape.gflop}


def torch_limits(arguments):
    limits = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    return limits if arguments.instructions == "avx2" else {}


def peak(arguments):
    """GFLOP/s of a large product of each library."""
    output, _ = run([sys.executable, "-c", TORCH_PEAK, str(arguments.threads)], torch_limits(arguments))
    width = PEAK.sample[0]
    product = 2 * PEAK.batch * (3 * width * width + width * PEAK.classes) / 1e6
    return {"torch": json.loads(output)["gflops"], "ours": product / ours(PEAK, arguments)["forward"]}


def is_here(peer):
    """Whether this Python has the peer's packages."""
    found = subprocess.run([sys.executable, "-c", {"jax": "import jax, optax"}.get(peer, "import torch")], capture_output=True)
    if found.returncode != 0:
        print(f"{peer} is left out: {found.stderr.decode().strip().splitlines()[-1]}", file=sys.stderr)
    return found.returncode == 0


def has_script(peer, name):
    of_shapes = name not in ("mlp", "lenet", "gpt")
    return {"torch": True, "compile": of_shapes, "autocast": of_shapes, "jax": name in JAX}[peer]


def measure(arguments):
    """Yields each measurement: shape, threads, who, round, and what was found."""
    common = {"threads": arguments.threads, "instructions": arguments.instructions or "all", "call": time.time()}
    common["precision"] = arguments.precision
    yield {**common, "shape": "peak", "who": "all", **peak(arguments)}
    for _ in range(arguments.rounds):
        for name in arguments.shapes:
            yield {**common, "shape": name, "who": "ours", **ours(SHAPES[name], arguments)}
            for peer in arguments.peers:
                if has_script(peer, name):
                    yield {**common, "shape": name, "who": peer, **theirs(peer, name, SHAPES[name], arguments)}
    yield {**common, "shape": "peak", "who": "all", **peak(arguments)}


def mean(ratios):
    return statistics.geometric_mean(ratios) if ratios else math.nan


def table(records, has_phases):
    """Prints a table for each number of threads and set of instructions among the records."""
    kind_of = lambda record: (record["threads"], record["instructions"], record.get("precision", "f32"))
    for kind in sorted({kind_of(record) for record in records}, key=str, reverse=True):
        of_kind = [record for record in records if kind_of(record) == kind]
        print_table(of_kind, f"{kind[0]} threads, {kind[1]} instructions, ours in {kind[2]}", PHASES if has_phases else ())


def print_table(records, title, phases):
    def median(name, who, key):
        values = [record[key] for record in records if (record["shape"], record["who"]) == (name, who)]
        return statistics.median(values) if values else None

    def best(call):
        """GFLOP/s of the better product of a call of this script, the median of its measurements."""
        of_call = [record for record in records if (record["shape"], record.get("call")) == ("peak", call)]
        return max(statistics.median(record[library] for record in of_call) for library in ("torch", "ours"))

    limits = {library: median("peak", "all", library) for library in ("torch", "ours")}
    peers = [peer for peer in ("torch", "compile", "autocast", "jax") if any(record["who"] == peer for record in records)]
    print(f"\n{title}: products of {limits['torch']:.0f} GFLOP/s (torch) and {limits['ours']:.0f} (ours)\n")
    columns = ["shape", "ours, ms", *(f"{peer}, ms" for peer in peers), *(f"to {peer}" for peer in peers), "to the fastest"]
    columns += ["GFLOP/s", "of peak", *phases, "data", "ours, MB", "torch, MB"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    ratios = {peer: [] for peer in [*peers, "fastest"]}
    for name in SHAPES:
        own = median(name, "ours", "ms")
        times = {peer: median(name, peer, "ms") for peer in peers}
        if own is None or not any(times.values()):
            continue
        fastest = min(time for time in times.values() if time)
        to = {peer: own / time if time else None for peer, time in times.items()}
        for peer, ratio in {**to, "fastest": own / fastest}.items():
            if ratio:
                ratios[peer].append(ratio)
        gflop = SHAPES[name].gflop or median(name, "torch", "gflop") or median(name, "compile", "gflop")
        rate = gflop / own * 1e3 if gflop else math.nan
        line = [name, f"{own:.3f}", *(f"{time:.3f}" if time else "" for time in times.values())]
        line += [f"{ratio:.2f}" if ratio else "" for ratio in to.values()]
        mine = [record for record in records if (record["shape"], record["who"]) == (name, "ours")]
        shares = [gflop / record["ms"] * 1e3 / best(record.get("call")) for record in mine] if gflop else [math.nan]
        line += [f"**{own / fastest:.2f}**", f"{rate:.0f}", f"{statistics.median(shares):.0%}"]
        line += [f"{median(name, 'ours', part):.3f}" for part in (*phases, "data")]
        torch_memory = median(name, "torch", "mb")
        line += [f"{median(name, 'ours', 'mb'):.0f}", f"{torch_memory:.0f}" if torch_memory else ""]
        print("| " + " | ".join(line) + " |")
    means = [f"{peer} {mean(of):.3f} ({len(of)})" for peer, of in ratios.items()]
    print("\ngeometric means of the ratios: " + ", ".join(means))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda text: text.split(",")
    parser.add_argument("--shapes", type=listed, default=[name for name in SHAPES if name not in OTHERS], help="names with commas, or others; default: the twelve")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=listed, default=["torch", "jax"], help="of torch, compile, autocast (to bf16), jax; default: torch,jax")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="of ours")
    parser.add_argument("--instructions", choices=["avx2", "avx512"], help="default: all that the processor has")
    parser.add_argument("--binary", default=str(ROOT / "target/release/sconce"))
    parser.add_argument("--set", action="append", default=[], help="an assignment to our manifests, as `sconce run` takes it")
    parser.add_argument("--phases", action="store_true", help="columns for the phases of our steps")
    parser.add_argument("--record", type=pathlib.Path, help="a file to which measurements are appended")
    parser.add_argument("--table", type=pathlib.Path, help="print the table of such a file, and measure nothing")
    arguments = parser.parse_args()
    if arguments.table:
        table([json.loads(line) for line in arguments.table.read_text().splitlines()], arguments.phases)
        return
    if arguments.shapes == ["others"]:
        arguments.shapes = list(OTHERS)
    unknown = [name for name in arguments.shapes if name not in SHAPES]
    if unknown:
        parser.error(f"unknown shapes {unknown}; known: {', '.join(SHAPES)}")
    arguments.peers = [peer for peer in arguments.peers if is_here(peer)]
    records = []
    for record in measure(arguments):
        records.append(record)
        if arguments.record:
            with arguments.record.open("a") as file:
                file.write(json.dumps(record) + "\n")
    table(records, arguments.phases)


if __name__ == "__main__":
    main()
