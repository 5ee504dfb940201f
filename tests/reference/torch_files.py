"""Files as PyTorch writes them, and such as attack who opens them, for host/trainer/src/weights/torch_tests.rs.

python torch_files.py, with PyTorch 2.15 on the CPU: writes torch_files/*.pt and torch_files/expected.json.
"""

import io
import json
import os
import zipfile
from collections import OrderedDict
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(5)
PLACE = Path(__file__).parent / "torch_files"
expected = {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.bn = nn.BatchNorm1d(2)


def listed(state):
    return {
        name: {
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
            "values": tensor.double().flatten().tolist(),
        }
        for name, tensor in state.items()
    }


def save(name, saved, state, **options):
    torch.save(saved, PLACE / name, **options)
    expected[name] = listed(state)


net = Net()
state = net.state_dict()
save("zip.pt", state, state)
save("legacy.pt", state, state, _use_new_zipfile_serialization=False)
save("module.pt", net, state)
save("nested.pt", {"state_dict": state, "optimizer": {"exp_avg": torch.ones(3)}, "epoch": 3}, state)
save("nested_legacy.pt", {"model": state, "epoch": 3}, state, _use_new_zipfile_serialization=False)
# A model whose modules are called as what others nest weights under.
inner = OrderedDict((f"model.{name}", tensor) for name, tensor in state.items())
save("dotted.pt", inner, inner)
whole = torch.arange(24.0).reshape(4, 6)
views = OrderedDict(turned=whole.t(), middle=whole[1:3, 2:5], steps=whole[::2, ::3], row=whole[2], shared=whole)
save("strided.pt", views, views)
save("strided_legacy.pt", views, views, _use_new_zipfile_serialization=False)
types = OrderedDict(
    (str(dtype).removeprefix("torch."), torch.tensor([0, 1, 3, 100]).to(dtype))
    for dtype in [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    + [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
save("types.pt", types, types)
save("types_legacy.pt", types, types, _use_new_zipfile_serialization=False)


class Calls:
    """What Python calls when it opens the file."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


marker = "touch sconce-ran-a-pickle"
weights = {"a.weight": torch.ones(2)}
torch.save({**weights, "z": Calls(os.system, marker)}, PLACE / "code.pt")
torch.save(Calls(os.system, marker), PLACE / "code_alone.pt")
torch.save({**weights, "z": [Calls(eval, "1")]}, PLACE / "code_legacy.pt", _use_new_zipfile_serialization=False)


def rebuilt(shape, stride):
    storage = torch.ones(4).storage()
    return Calls(torch._utils._rebuild_tensor_v2, storage, 0, shape, stride, False, OrderedDict())


torch.save({"a.weight": rebuilt((2**62, 4), (1, 1))}, PLACE / "overflow.pt")
torch.save({"a.weight": rebuilt((2, 3), (2**62, 2**62))}, PLACE / "beyond.pt")
torch.save({"a.weight": rebuilt((100_000_000,), (0,))}, PLACE / "expanded.pt")


def packed(name, pickle, storage=b""):
    """An archive of PyTorch's whose entries are compressed: little in the file, much in memory."""
    with zipfile.ZipFile(PLACE / name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("archive/data.pkl", pickle)
        archive.writestr("archive/byteorder", b"little")
        archive.writestr("archive/data/0", storage)
        archive.writestr("archive/version", b"3\n")


packed("bomb_pickle.pt", bytes(101 << 20))
large = io.BytesIO()
torch.save({"a.weight": torch.zeros(1 << 20)}, large)
with zipfile.ZipFile(large) as archive:
    entry = next(name for name in archive.namelist() if name.endswith("data.pkl"))
    packed("bomb_storage.pt", archive.read(entry), bytes(4 << 20))
(PLACE / "truncated.pt").write_bytes((PLACE / "zip.pt").read_bytes()[:-400])
(PLACE / "truncated_legacy.pt").write_bytes((PLACE / "legacy.pt").read_bytes()[:-20])
(PLACE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
