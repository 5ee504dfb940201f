"""Lists of layers in PyTorch, with their gradients, for host/nn/src/layers/reference_tests.rs.

python layers.py > layers.json, with PyTorch 2.15 on the CPU.
"""

import json

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)


class Of(nn.Module):
    """A function of its modules."""

    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            (self.register_parameter if isinstance(module, nn.Parameter) else self.add_module)(name, module)

    def forward(self, x):
        return self.function(self, x)


class Conv1D(nn.Module):
    """GPT-2's linear layer, with its weight as (inputs, outputs)."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs))
        self.bias = nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def rounded(tensor):
    return [float(f"{value:.12g}") for value in tensor.detach().flatten().tolist()]


def case(layers, module, x):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for embedding in (each for each in module.modules() if isinstance(each, nn.Embedding)):
            if embedding.padding_idx is not None:
                embedding.weight[embedding.padding_idx] = 0
    is_tokens = not x.is_floating_point()
    x = x.clone() if is_tokens else x.clone().requires_grad_()
    y = module(x)
    weights = torch.randn_like(y)
    (y * weights).sum().backward()
    # A parameter that two modules have is listed under its first name.
    parameters = {name: parameter for name, parameter in module.named_parameters()}
    return {
        "layers": layers,
        "x": {"shape": list(x.shape[1:]), "tokens": is_tokens, "values": x.flatten().tolist() if is_tokens else rounded(x)},
        "y": {"shape": list(y.shape[1:]), "values": rounded(y), "weights": rounded(weights)},
        "of_x": None if is_tokens else rounded(x.grad),
        "parameters": {name: {"values": rounded(each), "gradient": rounded(each.grad)} for name, each in parameters.items()},
    }


def functions():
    for kind, f in [("gelu-tanh", lambda x: F.gelu(x, approximate="tanh")), ("quick-gelu", lambda x: x * torch.sigmoid(1.702 * x))]:
        layers = [{"kind": kind}]
        yield case(layers, Of(lambda _, x, f=f: f(x)), 3 * torch.randn(2, 9))
    layers = [{"kind": "activation", "function": "gelu-tanh"}]
    yield case(layers, Of(lambda _, x: F.gelu(x, approximate="tanh")), 30 * torch.randn(2, 9))


def linear_layers():
    layers = [{"kind": "linear", "name": "c_fc", "outputs": 5, "transposed": True}]
    yield case(layers, Of(lambda of, x: of.c_fc(x), c_fc=Conv1D(3, 5)), torch.randn(2, 4, 3))

    def language(of, x):
        x = torch.tanh(of.wte(x))
        return torch.tanh(of.mlp(x)) @ of.wte.weight.T

    layers = [
        {"kind": "embedding", "name": "wte", "width": 4},
        {"kind": "tanh"},
        {"kind": "linear", "name": "mlp", "outputs": 4},
        {"kind": "tanh"},
        {"kind": "linear", "name": "lm_head", "tied": "wte"},
    ]
    tokens = torch.tensor([[3, 0, 3], [2, 6, 3]])
    yield case(layers, Of(language, wte=nn.Embedding(7, 4), mlp=nn.Linear(4, 4)), tokens)
    layers = [{"kind": "embedding", "name": "wte", "width": 4, "padding": 3}, {"kind": "linear", "name": "mlp", "outputs": 2}]
    yield case(layers, Of(lambda of, x: of.mlp(of.wte(x)), wte=nn.Embedding(7, 4, padding_idx=3), mlp=nn.Linear(4, 2)), tokens)


def blocks():
    layers = [{"kind": "repeat", "name": "h", "count": 3, "layers": [{"kind": "linear", "name": "up", "outputs": 4}, {"kind": "tanh"}]}]
    h = nn.ModuleList(nn.ModuleDict({"up": nn.Linear(4, 4)}) for _ in range(3))

    def repeated(of, x):
        for block in of.h:
            x = torch.tanh(block["up"](x))
        return x

    yield case(layers, Of(repeated, h=h), torch.randn(2, 4))
    layers = [
        {
            "kind": "parallel",
            "combine": "multiply",
            "branches": [
                [{"kind": "linear", "name": "gate", "outputs": 5, "bias": False}, {"kind": "silu"}],
                [{"kind": "linear", "name": "up", "outputs": 5}],
            ],
        }
    ]
    gated = Of(lambda of, x: F.silu(of.gate(x)) * of.up(x), gate=nn.Linear(3, 5, bias=False), up=nn.Linear(3, 5))
    yield case(layers, gated, torch.randn(2, 4, 3))
    layers = [
        {
            "kind": "parallel",
            "combine": "multiply",
            "branches": [
                [],
                [
                    {"kind": "adaptive-avg-pool2d"},
                    {"kind": "flatten"},
                    {"kind": "linear", "name": "down", "outputs": 2},
                    {"kind": "relu"},
                    {"kind": "linear", "name": "up", "outputs": 4},
                    {"kind": "sigmoid"},
                ],
            ],
        }
    ]

    def squeezed(of, x):
        factors = torch.sigmoid(of.up(F.relu(of.down(x.mean((2, 3))))))
        return x * factors[:, :, None, None]

    yield case(layers, Of(squeezed, down=nn.Linear(4, 2), up=nn.Linear(2, 4)), torch.randn(2, 4, 3, 2))
    layers = [
        {
            "kind": "parallel",
            "combine": "concatenate",
            "branches": [
                [{"kind": "conv2d", "name": "one", "channels": 2, "kernel": 1}],
                [],
                [{"kind": "conv2d", "name": "three", "channels": 3, "kernel": 3, "padding": 1}],
            ],
        }
    ]
    inception = Of(lambda of, x: torch.cat([of.one(x), x, of.three(x)], 1), one=nn.Conv2d(2, 2, 1), three=nn.Conv2d(2, 3, 3, padding=1))
    yield case(layers, inception, torch.randn(2, 2, 3, 3))
    layers = [
        {
            "kind": "parallel",
            "combine": "add",
            "branches": [[{"kind": "linear", "name": "a", "outputs": 3}], [], [{"kind": "linear", "name": "b", "outputs": 3}]],
        }
    ]
    yield case(layers, Of(lambda of, x: of.a(x) + x + of.b(x), a=nn.Linear(3, 3), b=nn.Linear(3, 3)), torch.randn(2, 3))


def sequences():
    layers = [{"kind": "class-token", "name": "cls_token"}, {"kind": "layer-norm", "name": "norm"}, {"kind": "select", "at": 0}]

    def classified(of, x):
        x = torch.cat([of.cls_token.expand(len(x), 1, -1), x], 1)
        return of.norm(x)[:, 0]

    modules = {"cls_token": nn.Parameter(torch.zeros(1, 1, 4)), "norm": nn.LayerNorm(4)}
    yield case(layers, Of(classified, **modules), torch.randn(2, 3, 4))
    layers = [
        {"kind": "position-embedding", "name": "positions", "bare": True, "positions": 5},
        {"kind": "layer-norm", "name": "norm"},
        {"kind": "select", "at": "last"},
    ]

    def last(of, x):
        return of.norm(x + of.positions[:, : x.shape[1]])[:, -1]

    modules = {"positions": nn.Parameter(torch.zeros(1, 5, 4)), "norm": nn.LayerNorm(4)}
    yield case(layers, Of(last, **modules), torch.randn(2, 3, 4))
    layers = [
        {"kind": "transpose", "axes": [1, 2, 0]},
        {"kind": "layer-norm", "name": "norm", "epsilon": 1e-6},
        {"kind": "scale", "name": "layer_scale_parameter", "init": 0.1},
        {"kind": "transpose", "axes": [2, 0, 1]},
    ]

    def scaled(of, x):
        return (of.norm(x.permute(0, 2, 3, 1)) * of.layer_scale_parameter).permute(0, 3, 1, 2)

    modules = {"layer_scale_parameter": nn.Parameter(torch.full((4,), 0.1)), "norm": nn.LayerNorm(4, eps=1e-6)}
    yield case(layers, Of(scaled, **modules), torch.randn(2, 4, 3, 2))


def images():
    layers = [{"kind": "group-norm", "name": "norm", "groups": 2}]
    yield case(layers, Of(lambda of, x: of.norm(x), norm=nn.GroupNorm(2, 4)), torch.randn(2, 4, 3, 2))


class First(nn.Module):
    """The outputs of a recurrent module, without its last state; parameters have the module's names."""

    def __init__(self, name, module):
        super().__init__()
        self.add_module(name, module)

    def forward(self, x):
        (module,) = self.children()
        return module(x)[0]


def recurrent_layers():
    for kind, module in [("lstm", nn.LSTM), ("gru", nn.GRU)]:
        layers = [{"kind": kind, "name": "rnn", "hidden": 3}]
        yield case(layers, First("rnn", module(2, 3, batch_first=True)), torch.randn(2, 4, 2))
        layers = [{"kind": kind, "name": "rnn", "hidden": 2, "layers": 2, "bidirectional": True}]
        yield case(layers, First("rnn", module(3, 2, 2, batch_first=True, bidirectional=True)), torch.randn(2, 3, 3))


def larger_images():
    layers = [{"kind": "conv-transpose2d", "name": "up", "channels": 4, "kernel": [3, 2], "stride": 2, "padding": 1, "output_padding": 1, "groups": 2}]
    up = nn.ConvTranspose2d(2, 4, (3, 2), 2, 1, 1, groups=2)
    yield case(layers, Of(lambda of, x: of.up(x), up=up), torch.randn(2, 2, 3, 3))
    layers = [{"kind": "conv-transpose2d", "name": "up", "channels": 3, "kernel": 3, "dilation": 2, "bias": False}]
    yield case(layers, Of(lambda of, x: of.up(x), up=nn.ConvTranspose2d(2, 3, 3, dilation=2, bias=False)), torch.randn(2, 2, 2, 3))
    for mode in ("nearest", "bilinear"):
        layers = [{"kind": "upsample", "factor": [2, 3], "mode": mode}]
        yield case(layers, Of(lambda _, x, mode=mode: F.interpolate(x, scale_factor=(2.0, 3.0), mode=mode)), torch.randn(2, 2, 3, 2))


cases = [each for group in (functions, linear_layers, blocks, sequences, images, recurrent_layers, larger_images) for each in group()]
print(json.dumps({"cases": cases}))
