"""Loads weights that Sconce has written into PyTorch's modules, by name and strictly, and compares the
outputs; then writes weights for Sconce to read.

usage: python interop.py DIRECTORY
DIRECTORY has weights.safetensors and inputs.safetensors with `inputs` and `outputs`. Writes
from_torch.safetensors, the same weights times 0.5, and expected.safetensors with the `outputs` of those.
Exits with 77 where torch or safetensors is not installed.
"""
import sys

try:
    import torch
    import torch.nn as nn
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(4, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.downsample = nn.Sequential(nn.Conv2d(4, 8, 1, 2, bias=False), nn.BatchNorm2d(8))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.downsample(x))


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(4, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))) + x)


class Resnet(nn.Module):
    """`{"kind": "resnet", "blocks": [1, 1], "width": 4}`, as torchvision names it."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4)
        self.layer1, self.layer2 = nn.Sequential(Plain()), nn.Sequential(Block())
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x)))))
        return self.fc(x.mean((2, 3)))


directory = sys.argv[1]
model = Resnet().eval()
model.load_state_dict(load_file(f"{directory}/weights.safetensors"), strict=True)
given = load_file(f"{directory}/inputs.safetensors")
with torch.no_grad():
    difference = (model(given["inputs"]) - given["outputs"]).abs().max().item()
    print(f"largest difference {difference:.2e}")
    if difference > 1e-4:
        sys.exit(1)
    halved = {name: value * 0.5 for name, value in model.state_dict().items()}
    model.load_state_dict(halved)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, f"{directory}/from_torch.safetensors")
    save_file({"outputs": model(given["inputs"])}, f"{directory}/expected.safetensors")
