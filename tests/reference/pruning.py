"""Writes pruning.json: the masks of PyTorch's `torch.nn.utils.prune` after prunings to growing shares of all numbers (or
rows), with what `prune` must be told to find the same ones. Run it with a Python that has torch, in this directory.
"""
import json
import torch
from torch.nn.utils import prune

torch.manual_seed(0)
cases = []


def case(shapes, structure, shares, is_global):
    modules = []
    for shape in shapes:
        module = torch.nn.Module()
        module.register_parameter("weight", torch.nn.Parameter(torch.randn(shape, dtype=torch.float64)))
        modules.append(module)
    numbers = [m.weight.detach().clone() for m in modules]
    targets = [(m, "weight") for m in modules]
    units = [n.shape[0] if structure == "row" else n.numel() for n in numbers]
    gone = 0.0
    for share in shares:
        # PyTorch's amounts are of what is left, unless they are whole numbers: then of all.
        def fresh(count):
            return round(share * count) - round(gone * count)
        if is_global:
            prune.global_unstructured(targets, pruning_method=prune.L1Unstructured, amount=fresh(sum(units)))
        else:
            for (m, name), count in zip(targets, units):
                if structure == "row":
                    prune.ln_structured(m, name, amount=fresh(count), n=1, dim=0)
                else:
                    prune.l1_unstructured(m, name, amount=fresh(count))
        gone = share
    cases.append({"parameters": [[list(n.shape), n.flatten().tolist()] for n in numbers], "structure": structure, "shares": shares,
                  "global": is_global, "masks": [m.weight_mask.flatten().int().tolist() for m in modules]})


for shares in ([0.5], [0.3, 0.65], [0.25, 0.25, 0.9]):
    case([(4, 5), (3, 2, 2)], "element", shares, False)
    case([(4, 5), (3, 2, 2)], "element", shares, True)
    case([(8, 3), (6, 2, 2)], "row", shares, False)
with open("pruning.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(entry) for entry in cases) + "\n]\n")
