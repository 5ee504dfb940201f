"""Writes constraints.json: parameters before and after PyTorch's `torch.renorm`, or the formula of Keras's constraints
(`UnitNorm`, `MinMaxNorm`, `NonNeg`), each beside the configuration of `weight-constraint` that must do the same. Run it
with a Python that has torch, in this directory.
"""
import json
import torch

torch.manual_seed(0)
cases = []


def case(config, shape, change):
    before = torch.randn(shape, dtype=torch.float64) * 2
    after = change(before)
    cases.append({"config": config, "shape": list(shape), "before": before.flatten().tolist(), "after": after.flatten().tolist()})


def norms(x, axis, order=2):
    others = [dim for dim in range(x.dim()) if dim != axis]
    return torch.linalg.vector_norm(x, order, dim=others, keepdim=True)


for shape in [(4, 3), (3, 2, 2, 2)]:
    for axis in range(len(shape)):
        case({"max": 1.5, "axis": axis}, shape, lambda x: torch.renorm(x, 2, axis, 1.5))
case({"max": 2.5, "order": 1}, (4, 3), lambda x: torch.renorm(x, 1, 0, 2.5))
case({"max": 0.5, "order": 0}, (4, 3), lambda x: torch.renorm(x, float("inf"), 0, 0.5))
# One dimension fewer: a single slice.
case({"max": 1.0, "axis": 1}, (5,), lambda x: x * min(1.0, 1.0 / (x.norm().item() + 1e-7)))
case({"kind": "unit-norm"}, (4, 3), lambda x: x / (norms(x, 0) + 1e-7))
case({"kind": "unit-norm", "axis": 1}, (4, 3), lambda x: x / (norms(x, 1) + 1e-7))


def min_max(x, low, high, rate):
    n = norms(x, 0)
    return x * (rate * n.clamp(low, high) + (1 - rate) * n) / (n + 1e-7)


case({"kind": "min-max-norm", "min": 3.0, "max": 4.0}, (6, 3), lambda x: min_max(x, 3.0, 4.0, 1.0))
case({"kind": "min-max-norm", "min": 3.0, "max": 4.0, "rate": 0.25}, (6, 3), lambda x: min_max(x, 3.0, 4.0, 0.25))
case({"kind": "non-negative"}, (4, 3), lambda x: x.clamp(min=0))
with open("constraints.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(entry) for entry in cases) + "\n]\n")
