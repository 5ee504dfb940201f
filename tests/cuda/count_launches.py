"""What a training step asks of a device: launches of kernels, products and copies, counted on the emulated device.

    tests/cuda/count_launches.py SCONCE [--precision PRECISION] [--only NAME[,NAME]] [--kernels]

SCONCE was built with the feature `cuda`; SCONCE_CUDA_LIBRARIES names the libraries that tests/cuda/build made (as tests/cuda/run does).
Layers are as many as in tests/gpu/measure.py, but narrow: a kernel is launched once whatever its size. A step's figures are the
difference between epochs of 8 and of 4 steps, divided by 4, so that what is done once a run or an epoch is left out; a fraction
means that not every step does it. `--kernels` prints each kernel's name with its launches, too.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import tempfile

# Model, data, batch.
SHAPES = {
    "lenet": ({"kind": "convnet", "conv_activation": "identity", "channels": [8, 16], "hidden": [32]}, {"kind": "synthetic-digits", "size": 28}, 8),
    "resnet18": ({"kind": "resnet", "width": 8}, {"kind": "synthetic-digits", "size": 32}, 4),
    "gpt": ({"kind": "gpt", "layers": 12, "heads": 12, "width": 96}, {"kind": "grammar", "context": 32}, 4),
}
# What is queued and is not a kernel; a product may be one or several.
COPIES = {"memcpyHtoD": "copies to the device", "memcpyHtoD, pinned": "copies to the device", "memcpyDtoD": "copies on it", "memcpyDtoH": "copies from it"}
OTHER = {"memset": "fills", "a matrix product": "products"}
IGNORED = {"free", "an event", "a wait for an event"}


def queued(sconce, name, precision, steps, place):
    """How often each piece of work was queued in a run."""
    model, data, batch = SHAPES[name]
    manifest = {
        "name": name, "seed": 1, "device": "cuda", "precision": precision, "model": model, "data": {**data, "train": steps * batch, "val": 0, "test": 0},
        "optimizer": {"kind": "adamw", "learning_rate": 0.001}, "train": {"epochs": 1, "batch_size": batch},
    }
    file = place / f"{name}-{precision}-{steps}.json"
    file.write_text(json.dumps(manifest))
    environment = {**os.environ, "SCONCE_CUDA_TRACE": "1", "SCONCE_KERNEL_CACHE": "", "NO_COLOR": "1"}
    done = subprocess.run([sconce, "run", file, "--output", place / file.stem], capture_output=True, text=True, env=environment, cwd=place)
    if done.returncode != 0:
        raise SystemExit(f"{name}: exit status {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}")
    return collections.Counter(re.findall(r"^emulated device: stream \S+: (.*)$", done.stderr, re.MULTILINE))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sconce", type=pathlib.Path)
    parser.add_argument("--precision", default="f32")
    parser.add_argument("--only", default=",".join(SHAPES))
    parser.add_argument("--kernels", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sconce-launches-") as place:
        for name in given.only.split(","):
            few, many = (queued(given.sconce.resolve(), name, given.precision, steps, pathlib.Path(place)) for steps in (4, 8))
            step = {work: (many[work] - few[work]) / 4 for work in many | few if work not in IGNORED}
            kinds = collections.Counter({"kernels": 0})
            for work, count in step.items():
                kinds[COPIES.get(work) or OTHER.get(work) or "kernels"] += count
            print(f"{name}, {given.precision}: " + ", ".join(f"{count:g} {kind}" for kind, count in kinds.items() if count or kind == "kernels"), flush=True)
            if given.kernels:
                for work, count in sorted(step.items(), key=lambda it: -it[1]):
                    print(f"    {count:g} {work}")


main()
