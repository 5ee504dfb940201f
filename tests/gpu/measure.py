"""Everything that can only be shown on a GPU, in one command of at most ten minutes, as a table in Markdown.

usage: measure.py [--kit FILE] [--out DIR] [--only NAME,NAME] [--seconds 560] [--tiny]

First `tests/gpu/pack`, where there is no GPU; then, where there is one, with the folder `.gpu` carried:

    python3 tests/gpu/measure.py --out $OUT

The kit is an archive, or a folder with the same files. The Python that runs this must have PyTorch for the ratios; they are left
out without it. NVIDIA's libraries are those that `sconce` finds: of a toolkit, or of PyTorch. Each line of the table has the
command that it comes from; manifests and logs are in `logs.tar.xz` beside it. A part for which no time is left says so. Exit
status 1 if a bound is missed.

`--tiny` goes through all parts at sizes for the emulated device (`SCONCE_CUDA_LIBRARIES=DIR`, made by `tests/cuda/build DIR`), to
try this script: the figures mean nothing and are not judged.
"""
import argparse, array, csv, gzip, hashlib, json, math, os, pathlib, random, re, shlex, shutil, signal, statistics, subprocess, sys
import tarfile, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
H100_BF16 = 989e12  # dense products of bf16 a second, NVIDIA's data sheet of the H100 SXM
HOOKS = [
    "console", "csv", "jsonl", {"hook": "checkpoint", "config": {"epochs": 1, "background": True}},
    {"hook": "ema", "config": {"decay": 0.99}}, {"hook": "grad-clip", "config": {"max_norm": 1.0}}, "stop-on-nan",
    "throughput", "memory", {"hook": "early-stopping", "config": {"monitor": "train/loss", "patience": 99}},
]


class Bench:
    def __init__(self, arguments):
        self.out = pathlib.Path(arguments.out).resolve()
        # Of $OUT only a few files come back, so runs and logs are elsewhere.
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="sconce-gpu-"))
        self.kit = unpacked(pathlib.Path(arguments.kit).resolve(), self.work)
        self.deadline = time.monotonic() + arguments.seconds
        self.is_tiny, self.rows, self.is_missed = arguments.tiny, [], False

    def left(self):
        return self.deadline - time.monotonic()

    def command(self, words, name, limit=240, environment=None, **options):
        """Runs a command; its exit status, output and seconds. The log is kept."""
        begin = time.monotonic()
        variables = {**os.environ, "NO_COLOR": "1", **(environment or {})}
        try:
            done = subprocess.run([str(word) for word in words], env=variables, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=max(5, min(limit, self.left())), cwd=self.work, **options)
            status, text = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            text = late.stdout or b""
            status, text = "time is over", text if isinstance(text, str) else text.decode(errors="replace")
        (self.work / f"{name}.log").write_text(f"$ {shlex.join(map(str, words))}\n{text}")
        return status, text, time.monotonic() - begin

    def sconce(self, name, manifest, *words, **options):
        """Trains by a manifest; as `command`, with the run's directory."""
        directory, file = self.work / name, self.manifest(name, manifest)
        command = [self.kit / "sconce", "run", file, "--output", directory, "--overwrite", *words]
        return (*self.command(command, name, **options), directory)

    def manifest(self, name, manifest):
        file = self.work / f"{name}.json"
        file.write_text(json.dumps({"name": name, "seed": 1, "device": "cuda", "plugins": [str(self.kit)], **manifest}, indent=1))
        return file

    def row(self, what, command, figure, is_met):
        """A line of the table; `is_met` None: not measured, or a figure without a bound."""
        is_met = None if self.is_tiny else is_met
        mark = {True: "yes", False: "**no**", None: ""}[is_met]
        self.is_missed |= is_met is False
        cells = (what, f"`{command}`" if command else "", figure, mark)
        self.rows.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
        print(self.rows[-1], flush=True)

    def data(self, name, tiny_bytes=None):
        """A file of the kit; if tiny, only its beginning, in the work directory."""
        file = self.kit / "data" / name
        if not self.is_tiny:
            return str(file)
        cut = self.work / name
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        if "-idx" in name:  # 64 of the 10,000 samples
            content = content[:4] + (64).to_bytes(4, "big") + content[8:tiny_bytes]
        cut.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content[:tiny_bytes])
        return str(cut)

    def finish(self):
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "table.md").write_text(HEADER + "\n" + "\n".join(self.rows) + "\n")
        with tarfile.open(self.out / "logs.tar.xz", "w:xz") as logs:
            for pattern in ("*.log", "*.json", "*/run.json", "*/*.jsonl"):
                for file in sorted(self.work.glob(pattern)):
                    logs.add(file, file.relative_to(self.work))
        shutil.rmtree(self.work, ignore_errors=True)
        return 1 if self.is_missed else 0


HEADER = "| what | command | figure | met |\n|---|---|---|---|"


def unpacked(kit, work):
    if kit.is_dir():
        return kit
    with tarfile.open(kit) as archive:
        archive.extractall(work / "kit", filter="data")
    return work / "kit"


def digits(bench, **train):
    train = {"epochs": 10, "batch_size": 64, **train}
    if bench.is_tiny:
        train.update(epochs=min(train["epochs"], 4), batch_size=16)
    return {
        "model": {"kind": "mlp", "hidden": [16 if bench.is_tiny else 256]},
        "data": {"kind": "idx", "images": bench.data("mnist-10k-images-idx3-ubyte.gz", 16 + 64 * 784),
                 "labels": bench.data("mnist-10k-labels-idx1-ubyte.gz", 8 + 64), "val": {"count": 16 if bench.is_tiny else 1000}},
        "optimizer": {"kind": "adamw", "learning_rate": 0.001}, "train": train,
    }


def last_metric(text, phase, metric):
    """A metric in the last line of a phase's epochs that `console` printed."""
    lines = re.findall(rf"epoch \d+/\d+  {phase}  .*", text)
    found = re.search(rf"{metric} (\S+)", lines[-1]) if lines else None
    return float(found[1]) if found else math.nan


class NoDevice(Exception):
    """Nothing else can be measured."""


def facts(bench):
    status, text, _ = bench.command([bench.kit / "sconce", "env"], "env", limit=60)
    gpu = next((line.strip() for line in text.splitlines() if "cuda:0" in line), "no GPU is named")
    is_there = status == 0 and "no GPU" not in gpu
    bench.row("device", "sconce env", gpu, is_there)
    if not is_there:
        raise NoDevice(next((line for line in text.splitlines() if line.startswith("GPUs")), f"`sconce env` ended with {status}"))


def gradients(bench):
    for program in sorted(bench.kit.glob("tests-*")):
        words = [program, "--test-threads", "4", *(["softmax"] if bench.is_tiny else [])]
        status, text, seconds = bench.command(words, program.name, environment={"SCONCE_TEST_DEVICE": "cuda"})
        found = re.search(r"test result: .*?(\d+) passed; (\d+) failed", text)
        figure = f"{found[1]} passed, {found[2]} failed in {seconds:.0f} s" if found else f"status {status}"
        bench.row("gradient checks and comparisons with the CPU", f"SCONCE_TEST_DEVICE=cuda {program.name}", figure, status == 0)


def lenet_model(bench):
    tiny = {"channels": [2, 2], "hidden": [8]} if bench.is_tiny else {"hidden": [1024]}
    return {"kind": "convnet", "conv_activation": "identity", **tiny}


def mnist(bench):
    status, text, seconds, _ = bench.sconce("mnist", {**digits(bench), "hooks": ["console"]})
    accuracy = last_metric(text, "val", "accuracy")
    # As examples/mnist on the CPU, which reaches 0.96 to 0.97 on these 10,000 images.
    bench.row("MNIST, mlp, 10 epochs: accuracy", "sconce run mnist.json", f"{accuracy:.4f} in {seconds:.0f} s", accuracy > 0.95)
    lenet = {**digits(bench, epochs=6), "model": lenet_model(bench)}
    status, text, seconds, _ = bench.sconce("mnist-lenet", {**lenet, "hooks": ["console"]})
    accuracy = last_metric(text, "val", "accuracy")
    # The CPU reaches 0.972 by the same manifest.
    bench.row("MNIST, lenet, 6 epochs: accuracy", "sconce run mnist-lenet.json", f"{accuracy:.4f} in {seconds:.0f} s", accuracy >= 0.965)


def shakespeare(bench):
    layers, heads, width = (1, 2, 8) if bench.is_tiny else (4, 4, 128)
    manifest = {
        "model": {"kind": "gpt", "layers": layers, "heads": heads, "width": width},
        "data": {"kind": "text", "file": bench.data("tinyshakespeare.txt", 4000), "unit": "byte", "context": 64, "val": {"fraction": 0.1}},
        "optimizer": {"kind": "adamw", "learning_rate": 0.001},
        "train": {"epochs": 1, "batch_size": 12, "eval_batch_size": 64}, "hooks": ["console"],
    }
    for precision in ("f32", "bf16"):
        name = f"shakespeare-{precision}"
        status, text, seconds, _ = bench.sconce(name, {**manifest, "precision": precision})
        loss = last_metric(text, "val", "loss")
        # The CPU reaches 1.9163 by the same manifest.
        bench.row(f"Shakespeare, gpt, {precision}: loss", f"sconce run {name}.json", f"{loss:.4f} in {seconds:.0f} s", loss < 1.92)


def fingerprint(directory, tag):
    """Digest of the tensors of a checkpoint."""
    files = sorted((directory / "checkpoints" / tag).glob("*.safetensors"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16] if files else f"no checkpoint {tag}"


def resume(bench):
    hooks = [{"hook": "checkpoint", "config": {"epochs": 1}}, "console"]
    manifest = {**digits(bench, epochs=4), "hooks": hooks, "name": "straight"}
    bench.sconce("straight", manifest)
    bench.sconce("again", manifest)
    # Killed once the checkpoint of the second epoch is there.
    directory, file = bench.work / "killed", bench.manifest("killed", manifest)
    words = [str(word) for word in (bench.kit / "sconce", "run", file, "--output", directory)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + 120
    while process.poll() is None and not (directory / "checkpoints" / "epoch-2").exists() and time.monotonic() < limit:
        time.sleep(0.002)
    process.kill()
    was_killed = process.wait() == -signal.SIGKILL
    bench.command([*words, "--resume"], "resumed")
    straight, again, resumed = (fingerprint(bench.work / name, "epoch-4") for name in ("straight", "again", "killed"))
    is_same = not straight.startswith("no")
    bench.row("two runs: same bits", "sconce run straight.json, twice", f"{straight}, {again}", is_same and straight == again)
    when = "" if was_killed else ", but it had ended before it was killed"
    bench.row("`kill -9` and resume: same bits", "sconce run --resume", f"{straight}, {resumed}{when}",
              is_same and straight == resumed and was_killed)


def hooks(bench):
    manifest = json.loads((ROOT / "examples/mnist-hooks/run.json").read_text())
    kept = {key: manifest[key] for key in ("model", "train", "hooks") if key in manifest and not (bench.is_tiny and key != "hooks")}
    if bench.is_tiny:  # a few samples teach nothing that `check` could demand
        kept["hooks"] = [hook for hook in kept["hooks"] if not (isinstance(hook, dict) and hook["hook"] == "check")]
    manifest = {**digits(bench), **kept}
    status, text, seconds, _ = bench.sconce("many-hooks", manifest)
    bench.row(f"{len(manifest['hooks'])} hooks at once", "sconce run many-hooks.json", f"status {status} in {seconds:.0f} s", status == 0)


def memory(bench):
    """Activations too large for any GPU: 9,000 × 2,048 × 28 × 28 elements have 58 GB, and there are several."""
    channels = [8, 8] if bench.is_tiny else [2048, 2048]
    manifest = {**digits(bench, epochs=1, batch_size=9000), "model": {"kind": "convnet", "channels": channels}, "hooks": []}
    few = {"SCONCE_CUDA_MEMORY": "1000000"} if bench.is_tiny else None
    status, text, _, _ = bench.sconce("too-large", manifest, environment=few)
    said = [line.strip() for line in text.splitlines() if re.match(r"error: |  = (note|hint): ", line)]
    is_told = "OUT_OF_MEMORY" in text and any("hint" in line for line in said)
    bench.row("out of memory", "sconce run too-large.json", f"status {status}: {' '.join(said)[:600]}", status == 7 and is_told)


def whole_runs(bench):
    """The checks that the emulated device has, on this one."""
    if bench.is_tiny:
        return
    words = [sys.executable, ROOT / "tests/cuda/whole_runs.py", bench.kit / "sconce", bench.kit]
    status, text, seconds = bench.command(words, "whole-runs")
    for mark, what, found in re.findall(r"^(ok|FAILED) +(.*?): (.*)$", text, re.MULTILINE):
        bench.row(what, "tests/cuda/whole_runs.py sconce plugins", found[:300], mark == "ok")
    if status not in (0, 1):
        bench.row("whole runs", "tests/cuda/whole_runs.py sconce plugins", f"status {status} after {seconds:.0f} s", False)


def kernels(bench):
    """Where the time of a step goes: kernels by NVIDIA's profiler, which runs them one after another. Figures without a bound."""
    if not shutil.which("ncu"):
        return
    for name, precision, launches in (("gpt", "bf16", 715), ("resnet18", "tf32", 340)):
        shape = (TINY if bench.is_tiny else SHAPES)[name]
        manifest = shape.manifest(bench.work / f"data-{shape.model['kind']}", 1, precision)
        file = bench.manifest(f"{name}-kernels", {**manifest, "hooks": []})
        # Two steps, after the first ones.
        words = ["ncu", "--csv", "--metrics", "gpu__time_duration.sum", "--launch-skip", 4 * launches, "--launch-count", 2 * launches,
                 bench.kit / "sconce", "run", file, "--output", bench.work / f"{name}-kernels", "--overwrite"]
        status, text, seconds = bench.command(words, f"{name}-kernels", limit=60)
        times = {}
        for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
            if row.get("Metric Name") == "gpu__time_duration.sum":
                scale = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3}.get(row["Metric Unit"], math.nan)
                times.setdefault(row["Kernel Name"].split("(")[0][:60], []).append(scale * float(row["Metric Value"].replace(",", "")))
        total = sum(map(sum, times.values()))
        largest = sorted(times.items(), key=lambda it: -sum(it[1]))[:14]
        figure = ", ".join(f"{kernel} {len(all)}× {sum(all):.0f}" for kernel, all in largest)
        bench.row(f"{name} {precision}: µs of two steps by kernel", "ncu …", f"{total:.0f} in all: {figure}" if times else f"status {status} after {seconds:.0f} s", None)


def npy(path, shape, block, kind):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    left = math.prod(shape) * block.itemsize
    with path.open("wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        while left > 0:
            left -= file.write(block.tobytes()[:left])


class Shape:
    """A model with its batch, and the steps of an epoch here and of the peer's run; `gflop`, if set, is the work of a step's products, forward and backward."""

    def __init__(self, model, batch, sample, steps, peer_steps, gflop=None):
        self.model, self.batch, self.sample, self.steps, self.peer_steps, self.gflop = model, batch, sample, steps, peer_steps, gflop

    def manifest(self, directory, epochs, precision):
        samples = self.batch * self.steps
        if isinstance(self.sample, int):
            if not directory.exists():
                directory.mkdir()
                (directory / "text").write_bytes(os.urandom(samples * self.sample + 1))
            data = {"kind": "text", "file": str(directory / "text"), "context": self.sample}
        else:
            if not directory.exists():
                directory.mkdir()
                noise = array.array("f", (random.gauss(0, 1) for _ in range(100_003)))
                npy(directory / "x.npy", (samples, *self.sample), noise, "<f4")
                npy(directory / "y.npy", (samples,), array.array("B", range(10)), "|u1")
            data = {"kind": "npy", "inputs": str(directory / "x.npy"), "targets": str(directory / "y.npy")}
        return {
            "model": self.model, "data": data, "precision": precision, "optimizer": {"kind": "adamw", "learning_rate": 0.001},
            "train": {"epochs": epochs, "batch_size": self.batch, "test": False},
        }


def gpt_gflop(layers=12, width=768, context=1024, batch=8, classes=256):
    """Products of a step: 2 operations a weight and token forward, 4 backward; causal attention half of length × length."""
    weights = layers * 12 * width * width + width * classes
    attention = layers * 2 * context * width  # 2 products of length × length, half of each
    return 3 * 2 * (weights + attention / 2) * context * batch / 1e9


SHAPES = {
    "lenet": Shape({"kind": "convnet", "conv_activation": "identity", "hidden": [1024]}, 512, (1, 28, 28), 1000, 1000),
    "resnet18": Shape({"kind": "resnet", "width": 64}, 256, (3, 32, 32), 100, 60),
    "gpt": Shape({"kind": "gpt", "layers": 12, "heads": 12, "width": 768}, 8, 1024, 30, 40, gpt_gflop()),
}
TINY = {
    "lenet": Shape({"kind": "convnet", "conv_activation": "identity", "channels": [2, 2], "hidden": [8]}, 4, (1, 28, 28), 2, 1),
    "resnet18": Shape({"kind": "resnet", "width": 2}, 2, (3, 8, 8), 2, 1),
    "gpt": Shape({"kind": "gpt", "layers": 1, "heads": 2, "width": 8}, 2, 16, 2, 1, gpt_gflop(1, 8, 16, 2)),
}
CLOCK = {"hook": "csv", "name": "clock", "config": {"elapsed": True, "directory": "clock"}}


def step_time(bench, name, shape, precision, hooks, rounds=3):
    """Milliseconds of a training step: the median over the epochs after the first, each waited for at its end."""
    manifest = shape.manifest(bench.work / f"data-{shape.model['kind']}", 1 + rounds, precision)
    manifest["hooks"] = [CLOCK, *hooks]
    status, _, _, directory = bench.sconce(name, manifest)
    if status != 0:
        return math.nan
    with (directory / "clock/train.csv").open() as rows:
        ends = [float(row["elapsed"]) for row in csv.DictReader(rows)]
    seconds = [end - begin for begin, end in zip(ends, ends[1:])]
    return 1e3 * statistics.median(seconds) / shape.steps if seconds else math.nan


def peer_time(bench, name, precision, steps):
    words = [sys.executable, HERE / "torch_steps.py", name, steps, "--precision", precision, *(["--tiny"] if bench.is_tiny else [])]
    status, text, _ = bench.command(words, f"torch-{name}-{precision}")
    try:
        return json.loads(text.strip().splitlines()[-1])["ms"] if status == 0 else math.nan
    except (ValueError, IndexError, KeyError):
        return math.nan


def ratios(bench):
    cases = [("gpt", "bf16", 1.1), ("lenet", "tf32", 1.0), ("resnet18", "tf32", 1.0), ("lenet", "f32", None), ("resnet18", "f32", None)]
    for name, precision, bound in cases:
        if bench.left() < 45:
            bench.row(f"{name} {precision}: ratio to PyTorch eager", "", "no time left", None)
            continue
        shape = (TINY if bench.is_tiny else SHAPES)[name]
        ours, peers = [], []
        for turn in range(2):
            ours.append(step_time(bench, f"{name}-{precision}-{turn}", shape, precision, ["console"]))
            peers.append(peer_time(bench, name, precision, shape.peer_steps))
        own, peer = statistics.median(ours), statistics.median(peers)
        # Without PyTorch there is nothing to compare with; a run of ours that failed is a miss.
        met = False if math.isnan(own) else None if bound is None or math.isnan(peer) else own / peer <= bound
        command = f"sconce run {name}-{precision}-0.json, torch_steps.py {name} {shape.peer_steps} --precision {precision}"
        bench.row(f"{name}, batch {shape.batch}, {precision}: ms a step, PyTorch's, ratio", command,
                  f"{own:.3f}, {peer:.3f}, {own / peer:.2f}" + (f" (at most {bound})" if bound else ""), met)
        if shape.gflop:
            rate = shape.gflop * 1e9 / (own / 1e3)
            bench.row(f"{name} {precision}: fraction of the bf16 peak of an H100 (989 TFLOP/s)", command,
                      f"{rate / 1e12:.0f} TFLOP/s, {rate / H100_BF16:.3f}", None)


def overhead(bench):
    shape = (TINY if bench.is_tiny else SHAPES)["resnet18"]
    pairs = [(step_time(bench, f"bare-{turn}", shape, "tf32", ["console"]), step_time(bench, f"hooked-{turn}", shape, "tf32", HOOKS))
             for turn in range(2)]
    bare, hooked = (statistics.median(times) for times in zip(*pairs))
    more = hooked / bare - 1
    bench.row(f"{len(HOOKS)} hooks on resnet18, batch 256: ms a step without, with, overhead", "sconce run hooked-0.json",
              f"{bare:.3f}, {hooked:.3f}, {100 * more:.1f} % (at most 2)", more <= 0.02)


PARTS = {"facts": facts, "gradients": gradients, "mnist": mnist, "shakespeare": shakespeare, "resume": resume, "hooks": hooks,
         "memory": memory, "whole": whole_runs, "overhead": overhead, "ratios": ratios, "kernels": kernels}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kit", default=ROOT / ".gpu/kit.tar.xz")
    parser.add_argument("--out", default=os.environ.get("OUT", "gpu-results"))
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    print(HEADER, flush=True)
    for name in arguments.only.split(","):
        if bench.left() < 15:
            bench.row(name, "", "no time left", False)
            continue
        try:
            PARTS[name](bench)
        except NoDevice as error:
            print(error, file=sys.stderr)
            bench.is_missed = True
            break
        except Exception as error:  # one part must not cost the others their time on the machine
            bench.row(name, "", f"{type(error).__name__}: {error}", False)
    sys.exit(bench.finish())


main()
