"""Whole runs with `"device": "cuda"`: what they learn, their bits, their errors.

    tests/cuda/whole_runs.py SCONCE PLUGINS [--only NAME[,NAME]]

SCONCE was built with the feature `cuda`. SCONCE_CUDA_LIBRARIES names the libraries of the emulated device, which tests/cuda/build
made (`tests/cuda/run` calls this with both); without it the runs are on this machine's GPU, and what only an emulation can do is left
out. Prints a line for each check; ends with 1 if one fails.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIGITS = {"kind": "synthetic-digits", "train": 192, "val": 48, "test": 16, "size": 16}
MODELS = {
    "convnet": ({"kind": "convnet", "channels": [4, 8], "hidden": [16], "dropout": 0.2, "batch_norm": True}, DIGITS),
    "gpt": ({"kind": "gpt", "layers": 2, "heads": 2, "width": 16, "dropout": 0.1}, {"kind": "grammar", "context": 16, "train": 192, "val": 48, "test": 16}),
}
OTHER_MODELS = {
    "resnet": ({"kind": "resnet", "width": 4}, DIGITS),
    "vit": ({"kind": "vit", "patch": 4, "layers": 2, "heads": 2, "width": 16}, DIGITS),
    "mlp": ({"kind": "mlp", "hidden": [32]}, DIGITS),
}
IS_EMULATED = "SCONCE_CUDA_LIBRARIES" in os.environ


class Runs:
    def __init__(self, sconce, plugins, place):
        self.sconce, self.plugins, self.place = sconce, plugins, place
        self.is_failed = False

    def check(self, what, is_met, found):
        """A line of the report."""
        self.is_failed |= not is_met
        print(f"{'ok' if is_met else 'FAILED':6}  {what}: {found}", flush=True)

    def manifest(self, name, model="convnet", hooks=(), **keys):
        network, data = {**MODELS, **OTHER_MODELS}[model]
        train = {"epochs": 2, "batch_size": 16, "eval_batch_size": 48, **keys.pop("train", {})}
        manifest = {
            "name": name, "seed": 5, "threads": 1, "device": "cuda", "plugins": [str(self.plugins)], "model": network, "data": data,
            "optimizer": {"kind": "adamw", "learning_rate": 0.01}, "metrics": ["accuracy"], "train": train, "hooks": list(hooks),
        }
        file = self.place / f"{name}.json"
        file.write_text(json.dumps({**manifest, **keys}))
        return file

    def words(self, name, file, *more, command=("run",)):
        return [str(self.sconce), *command, str(file), "--output", str(self.place / name), *more]

    def run(self, name, *more, command=("run",), environment=None, **keys):
        """Trains; the exit status, what was printed, and the run's directory."""
        words = self.words(name, self.manifest(name, **keys), *more, command=command)
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, env={**os.environ, **(environment or {})}, cwd=self.place)
        return done.returncode, done.stdout + done.stderr, self.place / name

    def trained(self, name, **keys):
        """As `run`; a run that fails ends the part."""
        status, text, directory = self.run(name, **keys)
        if status != 0:
            raise RuntimeError(f"{name}: exit status {status}\n{text[-3000:]}")
        return directory


def metrics(directory):
    return json.loads((directory / "run.json").read_text())["metrics"]


def numbers(value, name=""):
    """All numbers within a JSON value, by their names."""
    if isinstance(value, dict):
        return {key: it for word, inner in value.items() for key, it in numbers(inner, f"{name}/{word}").items()}
    if isinstance(value, list):
        return {key: it for index, inner in enumerate(value) for key, it in numbers(inner, f"{name}/{index}").items()}
    return {name: value} if isinstance(value, (int, float)) and not isinstance(value, bool) else {}


def bits(directory):
    """A hash of everything that was trained, and of all metrics."""
    found = hashlib.sha256()
    files = sorted(directory.glob("*.safetensors"))
    for file in files:
        found.update(file.read_bytes())
    found.update(json.dumps(metrics(directory), sort_keys=True).encode())
    return found.hexdigest()[:16] if files else "nothing was trained"


def compare(runs, what, here, there, loss=2e-3):
    """Checks that metrics are those of another run, but for rounding."""
    here, there = (numbers(metrics(directory)) for directory in (here, there))
    # Sums have another order on a device. A prediction of 48 may be the other one of two almost equal ones, and many in 16 bits.
    accuracy = 0.03 if loss < 0.02 else 0.2
    bound = {name: accuracy if "accuracy" in name else loss for name in here}
    wrong = {name: (here[name], there.get(name)) for name in here if not abs(there.get(name, math.nan) - here[name]) <= bound[name] * (1 + abs(here[name]))}
    largest = max((abs(there[name] - here[name]) for name in here if name in there and "accuracy" not in name), default=math.nan)
    runs.check(what, here != {} and not wrong, wrong or f"{len(here)} figures, losses differ by at most {largest:.1e}")


def as_on_the_cpu(runs):
    for model in MODELS:
        here, there = runs.trained(f"{model}-cpu", model=model, device="cpu"), runs.trained(f"{model}-cuda", model=model)
        compare(runs, f"{model}: metrics as on the CPU", here, there)
        device = json.loads((there / "run.json").read_text()).get("device", "")
        runs.check(f"{model}: the record names the device", device == "Emulated device" if IS_EMULATED else "NVIDIA" in device, device)


def other_models(runs):
    """More models, and the precisions of products."""
    cases = [("resnet", "f32", 2e-3), ("vit", "f32", 2e-3), ("mlp", "tf32", 2e-2), ("mlp", "bf16", 5e-2), ("gpt", "bf16", 5e-2), ("convnet", "bf16", 5e-2)]
    # At 0.01 a ResNet this narrow is ill-conditioned: its losses go apart by more than the bound within these 24 steps, between two of the
    # CPU's own ways too (`SCONCE_OPS=composed`).
    slower = {"resnet": {"optimizer": {"kind": "adamw", "learning_rate": 0.001}}}
    for model, precision, loss in cases:
        keys = {"model": model, **slower.get(model, {})}
        here = runs.trained(f"{model}-{precision}-cpu", device="cpu", **keys)
        there = runs.trained(f"{model}-{precision}-cuda", precision=precision, **keys)
        compare(runs, f"{model} in {precision}: metrics as in f32 on the CPU", here, there, loss)


def averages(runs):
    """Hooks that change parameters and what is measured, and checkpoints written beside the training."""
    hooks = {
        "swa": {"start": 0.5, "learning_rate": 0.01, "anneal_epochs": 1},
        "prune": {"amount": 0.5, "begin": 4, "end": 20, "every": 4},
        "freeze": {"parameters": ["conv*"], "until_epoch": 2, "learning_rate_ratio": 0.1},
        "precise-batchnorm": {"samples": 64},
        "checkpoint": {"epochs": 1, "best": [{"monitor": "loss"}], "load_best": True, "background": True},
        "ema": {"decay": 0.9},
    }
    for name, config in hooks.items():
        keys = {"hooks": [{"hook": name, "config": config}], "train": {"epochs": 4}}
        here, there = runs.trained(f"{name}-cpu", device="cpu", **keys), runs.trained(f"{name}-cuda", **keys)
        compare(runs, f"{name}: metrics as on the CPU", here, there, 1e-2)


def copies(runs):
    """Hooks in processes of their own have copies of what hooks here have; one in C works where a tensor is."""
    hooks = ["stop-on-nan", {"hook": "grad-clip", "config": {"max_norm": 1.0}}, {"hook": "weight-constraint", "config": {"parameters": ["*.weight"], "max": 2.0}}]
    bare = bits(runs.trained("bare"))
    here = bits(runs.trained("hooks-here", hooks=hooks))
    apart = [{"isolation": "process", **({"hook": hook} if isinstance(hook, str) else hook)} for hook in hooks]
    there = bits(runs.trained("hooks-apart", hooks=apart))
    runs.check("hooks in processes of their own: the same bits", here == there != bare, f"{here} {there}, without hooks {bare}")
    if any(runs.plugins.glob("*on_device.so")):
        keys = {"hooks": ["on-device"], "model": "mlp"}
        compare(runs, "a hook in C halves a gradient on the device", runs.trained("on-device-cpu", device="cpu", **keys), runs.trained("on-device-cuda", **keys))


def used(runs):
    """What was trained on the device is measured, used and resumed there and elsewhere."""
    hooks = [{"hook": "checkpoint", "config": {"epochs": 1}}]
    directory = runs.trained("used", hooks=hooks)
    printed = {}
    for device in ("cuda", "cpu"):
        for command in ("eval", "predict"):
            words = [str(runs.sconce), command, str(directory), "--set", f"device={device}"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=runs.place)
            found = [round(float(it), 3) for it in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", done.stdout)] if done.returncode == 0 else done.stderr[-1500:]
            printed[command, device] = found
    for command in ("eval", "predict"):
        here, there = printed[command, "cpu"], printed[command, "cuda"]
        is_near = isinstance(here, list) and isinstance(there, list) and len(here) == len(there) > 0 and all(abs(a - b) <= 0.011 for a, b in zip(here, there))
        runs.check(f"`{command}` prints what it does on the CPU", is_near, f"{len(here)} numbers" if is_near else f"{str(here)[:700]} {str(there)[:700]}")
    for keys, words in (({"device": "cpu"}, "device"), ({"precision": "bf16"}, "precision")):
        status, text, _ = runs.run("used", "--resume", hooks=hooks, train={"epochs": 3}, **keys)
        shown = next((line.strip() for line in text.splitlines() if words in line and "error" in text), text[-700:])
        runs.check(f"a resume with another {words} is refused", status == 2 and "--allow-changes" in text, f"exit status {status}: {shown}")
    status, text, _ = runs.run("used", "--resume", "--allow-changes", hooks=hooks, train={"epochs": 3}, device="cpu")
    runs.check("it goes on on the CPU where that is allowed", status == 0, f"exit status {status}" if status == 0 else text[-1500:])


def same_bits(runs):
    hooks = [{"hook": "checkpoint", "config": {"iterations": 4}}, {"hook": "ema", "config": {"decay": 0.9}}]
    keys = {"hooks": hooks, "train": {"epochs": 3}}
    for model in MODELS:
        first = bits(runs.trained(f"{model}-first", model=model, **keys))
        again = bits(runs.trained(f"{model}-again", model=model, **keys))
        runs.check(f"{model}: the same bits twice", first == again, f"{first} {again}")
        # Killed as soon as there is a checkpoint within the second epoch.
        name = f"{model}-killed"
        words = runs.words(name, runs.manifest(name, model=model, **keys))
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=runs.place)
        limit = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < limit and iteration(runs.place / name) < 16:
            time.sleep(0.005)
        was_running = process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        stopped_at = iteration(runs.place / name)
        resumed = subprocess.run([*words, "--resume"], capture_output=True, text=True, timeout=300, cwd=runs.place)
        found = bits(runs.place / name) if resumed.returncode == 0 else f"exit status {resumed.returncode}\n{resumed.stderr}"
        runs.check(f"{model}: killed at iteration {stopped_at} or later and resumed, the same bits", was_running and found == first, f"{found}, was running: {was_running}")


def iteration(directory):
    """The iteration of the last checkpoint of a run; 0 without one."""
    tags = [path.name for path in (directory / "checkpoints").glob("*") if not path.name.startswith(".")] if directory.exists() else []
    return max((int(found[1]) for tag in tags if (found := re.search(r"iteration-(\d+)$", tag))), default=0)


def many_hooks(runs):
    hooks = json.loads((ROOT / "examples/mnist-hooks/run.json").read_text())["hooks"]
    # What it asks of its own training is not asked here.
    hooks = [hook for hook in hooks if not (isinstance(hook, dict) and hook["hook"] in ("check", "save-file"))]
    for place, device in (("hooks-cpu", "cpu"), ("hooks-cuda", "cuda")):
        runs.trained(place, hooks=hooks, device=device)
    here, there = (numbers(metrics(runs.place / name)) for name in ("hooks-cpu", "hooks-cuda"))
    losses = {name: abs(here[name] - there.get(name, math.nan)) for name in here if name.endswith("loss")}
    # Hooks multiply what rounds otherwise: clipping, averages, plateaus.
    runs.check(f"{len(hooks)} hooks at once", losses != {} and all(it <= 1e-2 for it in losses.values()), f"losses differ by at most {max(losses.values(), default=math.nan):.1e}")
    files = [{str(path.relative_to(runs.place / name)) for path in (runs.place / name).rglob("*") if path.is_file()} for name in ("hooks-cpu", "hooks-cuda")]
    missing = sorted(name for name in files[0] - files[1] if "checkpoints" not in name)
    runs.check("the hooks' files are those of the CPU's run", not missing, missing or f"{len(files[1])} files")


def errors(runs):
    def refused(what, status, words, **keys):
        name = re.sub(r"\W+", "-", what)
        found, text, _ = runs.run(name, **keys)
        shown = next((line.strip() for line in text.splitlines() if words in line and line.startswith("error")), None)
        runs.check(what, found == status and shown is not None, f"exit status {found}: {shown or text[-1500:]}")

    refused("no such GPU", 2, "there is no GPU 3: the driver sees 1", device="cuda:3")
    if not IS_EMULATED:
        refused("a GPU that is hidden", 2, "there is no GPU 0: the driver sees 0", environment={"CUDA_VISIBLE_DEVICES": ""})
        return
    refused("no GPU at all", 2, "there is no GPU 0: the driver sees 0", environment={"SCONCE_CUDA_NO_DEVICE": "1"})
    refused("a driver that is too old", 2, "the driver supports CUDA 11.8", environment={"SCONCE_CUDA_VERSION": "11.8"})
    refused("a GPU that is too old", 2, "compute capability 7.0", environment={"SCONCE_CUDA_CAPABILITY": "7.0"})
    refused("no driver", 2, "no CUDA driver", environment={"SCONCE_CUDA_LIBRARIES": ""})
    refused("a layer with more than the memory", 2, "there are 60.0 kB of memory", environment={"SCONCE_CUDA_MEMORY": "60000"})
    refused("out of memory for a batch", 7, "out of memory", environment={"SCONCE_CUDA_MEMORY": "150000"})
    refused("out of memory in the backward pass", 7, "the backward pass failed", environment={"SCONCE_CUDA_MEMORY": "500000"})


def ranks(runs):
    two = {"SCONCE_CUDA_DEVICES": "2"}
    keys = {"train": {"epochs": 1, "accumulate": 4}, "distributed": {"batches": "update", "timeout": 120}}
    for model in MODELS:
        alone = bits(runs.trained(f"{model}-alone", model=model, **keys))
        status, text, directory = runs.run(f"{model}-ranks", model=model, command=("launch", "-n", "2"), environment=two, **keys)
        found = bits(directory) if status == 0 else f"exit status {status}\n{text[-3000:]}"
        runs.check(f"{model}: two ranks, each on its GPU, the bits of one", found == alone, found)
    status, text, _ = runs.run("too-many-ranks", command=("launch", "-n", "3"), environment=two, **keys)
    words = "there is no GPU 2: the driver sees 2"
    shown = next((line.strip() for line in text.splitlines() if words in line), text[-1500:])
    runs.check("a rank without a GPU of its own is refused", status == 2 and words in text, f"exit status {status}: {shown}")


def nccl(runs):
    """Sums of gradients that stay on the GPUs have the bits of those on the host, and no rank waits for ever."""
    three = {"SCONCE_CUDA_DEVICES": "3"}
    # Five batches an update: ranks with several nodes, and in the last update some with none.
    train = {"epochs": 1, "accumulate": 5}

    def launched(name, ranks=2, environment=None, train=train, distributed=None, **keys):
        distributed = {"batches": "update", "timeout": 120, **(distributed or {})}
        return runs.run(name, command=("launch", "-n", str(ranks)), environment={**three, **(environment or {})}, train=train, distributed=distributed, **keys)

    def trained(name, said, **keys):
        status, text, directory = launched(name, **keys)
        is_said = said in text
        return bits(directory) if status == 0 and is_said else f"exit status {status}, {said!r} was printed: {is_said}\n{text[-3000:]}"

    on_gpus, on_host = "gradients are summed on the GPUs, by NCCL 2.28.9", "gradients are summed on the host, not on the GPUs: "
    for model in MODELS:
        alone = bits(runs.trained(f"{model}-nccl-alone", model=model, train=train, distributed={"batches": "update", "gradients": "nccl"}))
        for ranks in (2, 3):
            found = trained(f"{model}-nccl-{ranks}", on_gpus, model=model, ranks=ranks, distributed={"gradients": "nccl"})
            runs.check(f"{model}: sums of {ranks} ranks by NCCL, the bits of one rank", found == alone, found)
        status, text, directory = launched(f"{model}-host", model=model, distributed={"gradients": "host"})
        found = bits(directory) if status == 0 and "gradients are summed" not in text else text[-3000:]
        runs.check(f"{model}: sums on the host, the bits of one rank", found == alone, found)
    for ranks in (2, 3):
        status, text, directory = launched(f"bf16-host-{ranks}", ranks=ranks, distributed={"wire": "bf16", "gradients": "host"})
        expected = bits(directory) if status == 0 else f"exit status {status}\n{text[-3000:]}"
        found = trained(f"bf16-nccl-{ranks}", on_gpus, ranks=ranks, distributed={"wire": "bf16"})
        runs.check(f"gradients in bf16 on their way between {ranks} ranks, the bits of the host's sums", found == expected, found)

    # Where NCCL can't be had, sums are on the host, unless they are asked for by name.
    libraries = runs.place / "without-nccl"
    libraries.mkdir()
    for entry in pathlib.Path(os.environ["SCONCE_CUDA_LIBRARIES"]).resolve().iterdir():
        if "nccl" not in entry.name:
            (libraries / entry.name).symlink_to(entry)
    without = {"SCONCE_CUDA_LIBRARIES": str(libraries)}
    expected = bits(runs.place / "convnet-host")
    found = trained("no-library", on_host + "rank 0", environment=without)
    runs.check("without NCCL's library, sums on the host", found == expected, found)
    found = trained("one-gpu", on_host + "rank 1", device="cuda:0")
    runs.check("with two ranks on one GPU, sums on the host", found == expected, found)

    def refused(what, words, **keys):
        status, text, _ = launched(re.sub(r"\W+", "-", what), distributed={"gradients": "nccl"}, **keys)
        shown = next((line.strip() for line in text.splitlines() if words in line and line.startswith("error")), None)
        is_placed = '"gradients": "nccl"' in text
        runs.check(what, status == 2 and is_placed and shown is not None, f"exit status {status}: {shown or text[-1500:]}")

    refused("NCCL asked for without its library", "`libnccl.so.2` can't be opened", environment=without)
    refused("NCCL asked for with two ranks on one GPU", "computes on the same GPU as rank 0", device="cuda:0")
    refused("NCCL asked for on the CPU", "it computes on the CPU", device="cpu")

    # Faults in mid-run.
    status, text, _ = launched("nccl-fails", environment={"SCONCE_NCCL_FAULT": "fail:1:3"})
    words = "rank 1", "could not sum gradients between GPUs: remote process exited or there was a network error"
    runs.check("NCCL fails on one rank", status == 7 and all(word in text for word in words), f"exit status {status}: {text[-1500:] if status != 7 else words[1]}")
    status, text, _ = launched("nccl-hangs", environment={"SCONCE_NCCL_FAULT": "hang:1:3"}, distributed={"timeout": 5})
    words = "has waited for other ranks for 5 s (`distributed.timeout`)"
    runs.check("NCCL hangs on one rank: the time limit ends all", status == 6 and words in text, f"exit status {status}: {words if words in text else text[-1500:]}")
    killed(runs, three)


def killed(runs, environment):
    """A rank that is killed between or within sums ends all."""
    name, hooks = "nccl-killed", [{"hook": "checkpoint", "config": {"iterations": 4}}]
    distributed = {"batches": "update", "gradients": "nccl", "timeout": 120}
    file = runs.manifest(name, train={"epochs": 100_000}, hooks=hooks, distributed=distributed)
    words = runs.words(name, file, command=("launch", "-n", "2"))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=runs.place, env={**os.environ, **environment})
    limit = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < limit and iteration(runs.place / name) == 0:
        time.sleep(0.005)
    log = runs.place / name / "ranks/1/log.txt"
    number = re.search(r"rank 1 .*, process (\d+)", log.read_text()) if log.exists() else None
    was_running = process.poll() is None and number is not None
    if was_running:
        os.kill(int(number[1]), signal.SIGKILL)
    else:
        process.kill()
    text, _ = process.communicate(timeout=120)
    # The launcher ends as the rank that was killed did.
    is_right = was_running and process.returncode == 128 + signal.SIGKILL
    runs.check("a rank is killed: all end", is_right, f"exit status {process.returncode}" if is_right else f"exit status {process.returncode}\n{text[-1500:]}")


PARTS = {
    "cpu": as_on_the_cpu, "models": other_models, "bits": same_bits, "hooks": many_hooks, "averages": averages, "copies": copies, "used": used,
    "errors": errors, **({"ranks": ranks, "nccl": nccl} if IS_EMULATED else {}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce", type=pathlib.Path)
    parser.add_argument("plugins", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(PARTS))
    given = parser.parse_args()
    if IS_EMULATED:  # its kernels are no use to anybody else
        os.environ["SCONCE_KERNEL_CACHE"] = ""
    os.environ["NO_COLOR"] = "1"
    place = pathlib.Path(tempfile.mkdtemp(prefix="sconce-cuda-"))
    runs = Runs(given.sconce.resolve(), given.plugins.resolve(), place)
    for name in given.only.split(","):
        try:
            PARTS[name](runs)
        except Exception as error:  # one part must not cost the others their time on a machine that is lent
            runs.check(name, False, error)
    if runs.is_failed:
        sys.exit(f"the runs are in {place}")
    shutil.rmtree(place)


main()
