"""Whether `bf16` trains as well as `f32` on a processor: four tasks, each with the same seeds and batches in both precisions, and the ratio of
their last losses, bf16 over f32, beside those of PyTorch's autocast. The mean over the seeds is what counts: a single seed's ratio is noise
of some percent.

usage: tests/bf16_training.py IMAGES LABELS TEXT [--seeds 1,2,3,4,5] [--tasks mlp,convnet,gpt,resnet] [--sides ours,torch,rounded]
                              [--binary FILE]
The side `rounded` is `torch` with autocast's products and convolutions computed in f32 of the same rounded operands, and rounded after: for
processors without instructions for bf16, where PyTorch's own take 5 to 7 times as long.
IMAGES, LABELS: MNIST's 10,000 test images, IDX; TEXT: any long text. Ours needs numpy for the generated images of `resnet`: ten patterns
in noise, 16 × 16 pixels.
"""
import argparse, contextlib, csv, functools, json, pathlib, statistics, subprocess, tempfile
import other_shapes
from other_shapes import conv, layer, sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
VALIDATION = 0.2
CONTEXT = 64
MODELS = {  # model, epochs, batch
    "mlp": (sequence(layer("flatten"), *other_shapes.mlp(128, 128)["layers"]), 3, 64),
    "convnet": (sequence(*conv(32, 3), *conv(32, 3, stride=2), *conv(64, 3, stride=2), layer("flatten"), layer("linear", outputs=10)), 3, 64),
    "gpt": (layer("gpt", width=96, layers=2, heads=4), 1, 32),
    "resnet": (other_shapes.resnet(16), 3, 32),
}


def generated(place):
    """Images of ten patterns in noise, with their labels: 4,000 of them."""
    import numpy

    noise = numpy.random.default_rng(0)
    labels = noise.integers(0, 10, 4000).astype("uint8")
    images = noise.normal(size=(10, 3, 16, 16))[labels] * 0.25 + noise.normal(size=(4000, 3, 16, 16))
    numpy.save(place / "x.npy", images.astype("float32"))
    numpy.save(place / "y.npy", labels)
    return {"kind": "npy", "inputs": str(place / "x.npy"), "targets": str(place / "y.npy"), "val": {"fraction": VALIDATION}}


def data_of(name, arguments, place):
    if name == "gpt":
        return {"kind": "text", "file": str(arguments.text.resolve()), "context": CONTEXT, "val": {"fraction": 0.1}}
    if name == "resnet":
        return generated(place)
    return {"kind": "idx", "images": str(arguments.images.resolve()), "labels": str(arguments.labels.resolve()), "val": {"fraction": VALIDATION}}


def ours(name, data, seed, is_narrow, arguments):
    """The last training and validation loss of a run."""
    model, epochs, batch = MODELS[name]
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        manifest = {
            "seed": seed, "threads": arguments.threads, "precision": "bf16" if is_narrow else "f32", "plugins": [str(pathlib.Path(arguments.binary).resolve().parent)],
            "output": "run", "model": model, "data": data, "optimizer": {"kind": "adamw", "learning_rate": 1e-3},
            "train": {"epochs": epochs, "batch_size": batch, "test": False}, "hooks": ["csv"],
        }
        (place / "run.json").write_text(json.dumps(manifest))
        ended = subprocess.run([arguments.binary, "run", place / "run.json", "--quiet"], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        read = lambda phase: list(csv.DictReader((place / f"run/{phase}.csv").open()))[-1]
        return [float(read(phase)["loss"]) for phase in ("train", "val")]


def arrays(data):
    """Inputs and targets of training and of validation, as tensors."""
    import numpy, torch

    if data["kind"] == "text":
        text = torch.frombuffer(bytearray(pathlib.Path(data["file"]).read_bytes()), dtype=torch.uint8).long()
        count = (len(text) - 1) // CONTEXT
        x, y = (text[first:][: count * CONTEXT].view(count, CONTEXT) for first in (0, 1))
    elif data["kind"] == "idx":
        images = numpy.frombuffer(pathlib.Path(data["images"]).read_bytes(), "u1", offset=16).reshape(-1, 1, 28, 28)
        x = torch.tensor(images / 255, dtype=torch.float32)
        y = torch.tensor(numpy.frombuffer(pathlib.Path(data["labels"]).read_bytes(), "u1", offset=8).astype("i8"))
    else:
        x, y = torch.tensor(numpy.load(data["inputs"])), torch.tensor(numpy.load(data["targets"]).astype("i8"))
    first = int(len(x) * (1 - data["val"]["fraction"]))
    return (x[:first], y[:first]), (x[first:], y[first:])


def rounded():
    """Has operations on bf16 computed in f32 while it is entered, forward and backward, with the result rounded: what their instructions do."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    def cast(values, to):
        if isinstance(values, (tuple, list)):
            return type(values)(cast(value, to) for value in values)
        is_float = isinstance(values, torch.Tensor) and values.is_floating_point()
        return values.to(to) if is_float else values

    class Rounded(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            is_narrow = any(isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 for value in args)
            if not is_narrow or operation.overloadpacket.__name__ not in ("convolution", "convolution_backward", "mm", "addmm", "bmm"):
                return operation(*args, **kwargs or {})
            return cast(operation(*cast(args, torch.float32), **kwargs or {}), torch.bfloat16)

    return Rounded()


def theirs(name, data, seed, is_narrow, arguments, mode=contextlib.nullcontext):
    """The last training and validation loss in PyTorch, under autocast to bf16 or in f32."""
    import torch
    import torch.nn.functional as F

    model, epochs, batch = MODELS[name]
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(seed)
    (x, y), held_out = arrays(data)
    network = other_shapes.module({**model, "context": CONTEXT} if model["kind"] == "gpt" else model, 256 if model["kind"] == "gpt" else 10)
    network(x[:2])
    optimizer = torch.optim.AdamW(network.parameters(), 1e-3)

    def loss_of(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_narrow):
            outputs = network(x)
        return F.cross_entropy(outputs.float(), y.flatten())

    with mode():
        return train(network, optimizer, loss_of, (x, y), held_out, epochs, batch)


def train(network, optimizer, loss_of, data, held_out, epochs, batch):
    """The mean loss of the last epoch, and the validation loss after it."""
    import torch

    x, y = data
    for _ in range(epochs):
        network.train()
        order, losses = torch.randperm(len(x)), []
        for rows in order.split(batch):
            optimizer.zero_grad()
            loss = loss_of(x[rows], y[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    network.eval()
    with torch.no_grad():
        parts = list(zip(*(part.split(batch) for part in held_out)))
        validation = sum(loss_of(*part).item() * len(part[0]) for part in parts) / len(held_out[0])
    return [statistics.fmean(losses), validation]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("images", "labels", "text"):
        parser.add_argument(name, type=pathlib.Path)
    listed = lambda text: text.split(",")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in listed(text)], default=[1, 2, 3, 4, 5])
    parser.add_argument("--tasks", type=listed, default=list(MODELS))
    parser.add_argument("--sides", type=listed, default=["ours", "torch"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--binary", default=str(ROOT / "target/release/sconce"))
    arguments = parser.parse_args()
    print("| task | side | seeds | train, mean | val, mean | val, single seeds | f32's val loss |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        for name in arguments.tasks:
            data = data_of(name, arguments, pathlib.Path(place))
            for side in arguments.sides:
                losses = {"ours": ours, "torch": theirs, "rounded": functools.partial(theirs, mode=rounded)}[side]
                pairs = [[losses(name, data, seed, is_narrow, arguments) for is_narrow in (False, True)] for seed in arguments.seeds]
                of = lambda phase: [100 * (bf16[phase] / f32[phase] - 1) for f32, bf16 in pairs]
                train, val = of(0), of(1)
                loss = statistics.mean(f32[1] for f32, _ in pairs)
                numbers = f"{len(pairs)} | {statistics.mean(train):+.2f} % | {statistics.mean(val):+.2f} % | {min(val):+.2f} to {max(val):+.2f} % | {loss:.4f}"
                print(f"| {name} | {side} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
