"""PyTorch's losses and their gradients, for host/src/loss/tests.rs.

python losses.py > losses.json, with PyTorch 2.15 on the CPU.
"""

import json

import torch
from torch.nn import functional as F

torch.manual_seed(5)
F64 = torch.float64


def case(config, outputs, targets, loss):
    outputs = outputs.clone().requires_grad_()
    value = loss(outputs, targets)
    value.backward()
    return {
        "config": config,
        "outputs": outputs.tolist(),
        "targets": targets.tolist(),
        "loss": value.item(),
        "gradient": outputs.grad.tolist(),
    }


def cross_entropy(shape, smoothing=0.0, weights=None, ignored=None):
    config = {"kind": "cross-entropy", "label_smoothing": smoothing}
    options = {"label_smoothing": smoothing}
    if weights is not None:
        config["class_weights"] = weights
        options["weight"] = torch.tensor(weights, dtype=F64)
    if ignored is not None:
        config["ignore_index"] = ignored
        options["ignore_index"] = ignored
    outputs = 2 * torch.randn(*shape, dtype=F64)
    targets = torch.randint(0, shape[-1], shape[:-1])
    if ignored is not None:
        targets.view(-1)[::3] = ignored
    # PyTorch has classes second, where Sconce has them last.
    return case(config, outputs, targets, lambda x, y: F.cross_entropy(x.movedim(-1, 1), y, **options))


def binary(pos_weight=None):
    outputs = 3 * torch.randn(4, 3, dtype=F64)
    outputs[0, 0] = 0.0
    targets = torch.tensor([[0, 1, 0], [1, 1, 0], [0, 0.25, 1], [1, 0, 0]], dtype=F64)
    config = {"kind": "binary-cross-entropy"}
    weight = None
    if pos_weight is not None:
        config["pos_weight"] = pos_weight
        weight = torch.tensor(pos_weight, dtype=F64)
    return case(
        config, outputs, targets, lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=weight)
    )


def numbers(config, loss):
    outputs = 2 * torch.randn(4, 2, dtype=F64)
    # Sconce's targets are f32: these have the same value in both.
    targets = (64 * torch.randn(4, 2, dtype=F64)).round() / 64
    outputs[1, 1] = targets[1, 1]
    return case(config, outputs, targets, loss)


WEIGHTS = [1.0, 0.5, 2.0, 0.0]
CASES = [
    cross_entropy((5, 4)),
    cross_entropy((5, 4), smoothing=0.1),
    cross_entropy((5, 4), weights=WEIGHTS),
    cross_entropy((7, 4), smoothing=0.2, weights=WEIGHTS),
    cross_entropy((7, 4), smoothing=0.2, weights=WEIGHTS, ignored=2),
    cross_entropy((7, 4), ignored=9),
    cross_entropy((2, 3, 4)),
    cross_entropy((2, 3, 4), smoothing=0.3, weights=WEIGHTS, ignored=1),
    binary(),
    binary([2.0, 0.5, 3.0]),
    numbers({"kind": "mse"}, F.mse_loss),
    numbers({"kind": "l1"}, F.l1_loss),
    numbers({"kind": "huber"}, F.huber_loss),
    numbers({"kind": "huber", "delta": 0.5}, lambda x, y: F.huber_loss(x, y, delta=0.5)),
]
print(json.dumps({"torch": torch.__version__, "cases": CASES}, indent=1))
