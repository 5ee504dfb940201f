"""Nineteen more shapes for against_pytorch.py (`--shapes others`), none of which our code was tuned for: small and narrow models, odd batches,
and kinds of layers that the twelve of docs/performance.md lack.

Each is one definition: the manifest's model, from which `module` makes PyTorch's, but for `gpt` and `vit`, which ../shared/peers has.
As a script it is a peer: other_shapes.py SHAPE STEPS, with the options of torch_shapes.py, whose loop times the steps.
"""
import contextlib, importlib, os, pathlib, sys

PEERS = pathlib.Path(os.environ.get("PEERS", pathlib.Path(__file__).resolve().parent.parent / "../shared/peers"))
IMAGE, DIGIT = (3, 32, 32), (1, 28, 28)


def layer(kind, **keys):
    return {"kind": kind, **keys}


def mlp(*hidden):
    return sequence(*(part for width in hidden for part in (layer("linear", outputs=width), layer("relu"))), layer("linear"))


def sequence(*layers):
    return layer("sequential", layers=list(layers))


def conv(channels, kernel, activation="relu", norm=True, **keys):
    """A convolution that keeps the size at stride 1, with batch norm and activation."""
    parts = [layer("conv2d", channels=channels, kernel=kernel, padding=kernel // 2, bias=not norm, **keys)]
    return parts + [layer("batch-norm")] * norm + [layer(activation)] * (activation is not None)


POOL = layer("max-pool2d", kernel=2)
HEAD = [layer("adaptive-avg-pool2d"), layer("flatten"), layer("linear")]


def resnet(width, blocks=(2, 2, 2, 2), bottleneck=False, large=False):
    stem = [*conv(width, 7, stride=2), layer("max-pool2d", kernel=3, stride=2, padding=1)] if large else conv(width, 3)
    layers, inputs = stem, width
    for stage, count in enumerate(blocks):
        inner = width * 2**stage
        outputs = 4 * inner if bottleneck else inner
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            convs = [*conv(inner, 1), *conv(inner, 3, stride=stride), *conv(outputs, 1, None)]
            convs = convs if bottleneck else [*conv(inner, 3, stride=stride), *conv(outputs, 3, None)]
            shortcut = conv(outputs, 1, None, stride=stride) if stride > 1 or inputs != outputs else []
            layers = [*layers, layer("residual", layers=convs, activation="relu", **({"shortcut": shortcut} if shortcut else {}))]
            inputs = outputs
    return sequence(*layers, *HEAD)


def vgg(*widths, hidden):
    """Two 3 × 3 convolutions of each width, each pair with pooling."""
    pairs = (part for channels in widths for part in [*conv(channels, 3, norm=False) * 2, POOL])
    return sequence(*pairs, layer("flatten"), *mlp(hidden)["layers"])


def mobilenet(*widths):
    layers, inputs = conv(widths[0], 3), widths[0]
    for channels, stride in zip(widths[1:], (1, 2, 1, 2, 1)):
        layers = [*layers, *conv(inputs, 3, stride=stride, groups=inputs), *conv(channels, 1)]
        inputs = channels
    return sequence(*layers, *HEAD)


def wide_kernels(channels, blocks):
    """Depthwise 7 × 7 and two 1 × 1 convolutions beside a shortcut, as ConvNeXt has them, with batch norms."""
    inner = [*conv(channels, 7, None, groups=channels), *conv(4 * channels, 1, "gelu", norm=False), *conv(channels, 1, None, norm=False)]
    stem = [layer("conv2d", channels=channels, kernel=4, stride=4), layer("batch-norm")]
    return sequence(*stem, *[layer("residual", layers=inner)] * blocks, *HEAD)


def autoencoder():
    up = [part for channels in (16, 3) for part in (layer("conv-transpose2d", channels=channels, kernel=4, stride=2, padding=1), layer("relu"))]
    down = [*conv(16, 3, norm=False, stride=2), *conv(32, 3, norm=False, stride=2)]
    return sequence(layer("reshape", shape=IMAGE), *down, *up[:-1], layer("flatten"))


OTHERS = {  # name: batch, sample or context, classes, model; steps of a pass of ours, passes after the first, steps of the peer
    "mlp-narrow": (256, (20,), 2, mlp(64, 64), 200, 10, 1500),
    "mlp-deep": (128, (128,), 10, mlp(*[256] * 8), 60, 6, 200),
    "mlp-few-rows": (16, (512,), 10, mlp(1024, 1024), 60, 6, 200),
    "mlp-many-rows": (8192, (32,), 4, mlp(128), 30, 6, 100),
    "lenet5": (128, DIGIT, 10, sequence(*conv(6, 5, norm=False), POOL, *conv(16, 5, norm=False), POOL, layer("flatten"), *mlp(120, 84)["layers"]), 20, 5, 60),
    "convnet-8": (64, DIGIT, 10, sequence(*conv(8, 3), *conv(16, 3, stride=2), *conv(32, 3, stride=2), layer("flatten"), layer("linear")), 20, 5, 60),
    "vgg-64": (16, IMAGE, 10, vgg(64, 128, hidden=256), 5, 3, 10),
    "resnet18-16": (32, IMAGE, 10, resnet(16), 5, 4, 12),
    "resnet18-64": (8, IMAGE, 10, resnet(64), 4, 3, 8),
    "resnet18-large-stem": (16, (3, 96, 96), 10, resnet(32, large=True), 5, 3, 10),
    "resnet-bottleneck": (16, IMAGE, 10, resnet(16, bottleneck=True), 5, 3, 10),
    "mobilenet-16": (32, IMAGE, 10, mobilenet(16, 32, 64, 64, 128, 128), 6, 4, 15),
    "depthwise-7": (32, IMAGE, 10, wide_kernels(96, 4), 10, 4, 20),
    "conv-autoencoder": (32, (3072,), 0, autoencoder(), 20, 4, 40),
    "lstm": (16, 64, 256, sequence(layer("embedding", width=64), layer("lstm", hidden=128), layer("linear")), 10, 4, 20),
    "gpt-6x192": (8, 128, 256, layer("gpt", layers=6, heads=6, width=192), 4, 3, 8),
    "gpt-2x64": (32, 32, 256, layer("gpt", layers=2, heads=2, width=64), 20, 5, 50),
    "gpt-long": (2, 512, 256, layer("gpt", layers=2, heads=4, width=128), 10, 4, 20),
    "vit-8": (32, IMAGE, 10, layer("vit", patch=8, width=128, layers=4, heads=4), 15, 4, 30),
}


def module(model, classes):
    """PyTorch's module of a manifest's layer; it takes its inputs' sizes from the first batch."""
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, layers, shortcut=None, activation=None):
            super().__init__()
            self.body, self.shortcut = module(sequence(*layers), classes), module(sequence(*shortcut or ()), classes)
            self.last = module(layer(activation), classes) if activation else nn.Identity()

        def forward(self, x):
            return self.last(self.body(x) + self.shortcut(x))

    class Tokens(nn.Module):
        """A layer of recurrence, without its last state."""

        def __init__(self, layers):
            super().__init__()
            self.layers = layers

        def forward(self, x):
            return self.layers(x)[0]

    class RowsOfTokens(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = layers

        def forward(self, x):
            return self.layers(x).flatten(0, 1)

    def of_sequence(layers):
        parts, width = [], None
        for part in layers:
            keys = {key: value for key, value in part.items() if key != "kind"}
            if part["kind"] == "lstm":
                parts.append(Tokens(nn.LSTM(width, keys["hidden"], batch_first=True)))
            else:
                parts.append(module(part, classes))
            width = keys.get("width") or keys.get("hidden") or width
        found = nn.Sequential(*parts)
        return RowsOfTokens(found) if any(isinstance(part, Tokens) for part in parts) else found

    kind, keys = model["kind"], {key: value for key, value in model.items() if key != "kind"}
    if kind in ("gpt", "vit"):
        peers = torch_shapes()
        blocks = keys["layers"], keys["heads"], keys["width"]
        return peers.GPT(*blocks, keys["context"]) if kind == "gpt" else peers.ViT(*blocks, keys["patch"])
    names = {"channels": "out_channels", "outputs": "out_features", "kernel": "kernel_size"}
    renamed = {names.get(key, key): value for key, value in keys.items()}
    match kind:
        case "sequential":
            return of_sequence(keys["layers"])
        case "residual":
            return Residual(**keys)
        case "linear":
            return nn.LazyLinear(**{"out_features": classes, **renamed})
        case "reshape":
            return nn.Unflatten(1, keys["shape"])
        case "embedding":
            return nn.Embedding(classes, keys["width"])
        case "adaptive-avg-pool2d":
            return nn.AdaptiveAvgPool2d(1)
    classes_of = {"conv2d": nn.LazyConv2d, "conv-transpose2d": nn.LazyConvTranspose2d, "batch-norm": nn.LazyBatchNorm2d, "max-pool2d": nn.MaxPool2d}
    classes_of |= {"relu": nn.ReLU, "gelu": nn.GELU, "flatten": nn.Flatten}
    return classes_of[kind](**renamed)


def torch_shapes():
    """The module of ../shared/peers, which runs as it is imported: it is asked to list its shapes, into nothing."""
    if "torch_shapes" not in sys.modules:
        sys.path.insert(0, str(PEERS))
        arguments, sys.argv = sys.argv, ["torch_shapes.py", "--list"]
        with contextlib.redirect_stdout(open(os.devnull, "w")):
            importlib.import_module("torch_shapes")
        sys.argv = arguments
    return sys.modules["torch_shapes"]


def made(name):
    """The model of a shape, with its lazy sizes known: parameters are counted and optimised from the start."""
    import torch

    batch, sample, classes, model, *_ = OTHERS[name]
    found = module({**model, "context": sample} if model["kind"] == "gpt" else model, classes)
    found(torch.zeros(2, sample, dtype=torch.long) if isinstance(sample, int) else torch.zeros(2, *sample))
    return found


if __name__ == "__main__":
    peers = torch_shapes()
    for name, (batch, sample, classes, *_) in OTHERS.items():
        peers.SHAPES[name] = (batch, sample, classes, lambda name=name: made(name), "a manifest's model")
    peers.main()
