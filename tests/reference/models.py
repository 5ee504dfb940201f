"""The models of the reference scripts, with Sconce's names: those of `shared/peers/torch_tasks.py`, and small ones with
the structures of `shared/peers/torch_shapes.py`.

A state dictionary of one of these loads weights that Sconce has written, and the other way round.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mlp(nn.Module):
    """784-256-10, ReLU."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(784, 256), nn.Linear(256, 10)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Lenet(nn.Module):
    """conv5x5(1->32) pool2 conv5x5(32->64) pool2 1024-1024-10."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 64, 5)
        self.fc1, self.fc2 = nn.Linear(1024, 1024), nn.Linear(1024, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x), 2)
        x = F.max_pool2d(self.conv2(x), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Attention(nn.Module):
    def __init__(self, width, heads, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).split(width, 2)
        heads = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(*heads, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal=True):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(width), Attention(width, heads, causal)
        self.ln2 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    """Byte-level, 4 layers, 4 heads, width 128, context 64, vocabulary 256."""

    def __init__(self, vocabulary=256, context=64, width=128, heads=4, layers=4):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tok(tokens) + self.pos.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class Linears(nn.Module):
    """Linear layers with ReLU between them."""

    def __init__(self, *widths):
        super().__init__()
        self.count = len(widths) - 1
        for index, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            self.add_module(f"fc{index + 1}", nn.Linear(inputs, outputs))

    def forward(self, x):
        x = x.flatten(1)
        for index in range(1, self.count):
            x = F.relu(self.get_submodule(f"fc{index}")(x))
        return self.get_submodule(f"fc{self.count}")(x)


class Vgg(nn.Module):
    """Twice two conv3x3 with ReLU and pool2, 8 and 16 channels, linear 32 and 10."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.conv3, self.conv4 = nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(16 * 9, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = F.max_pool2d(F.relu(self.conv4(F.relu(self.conv3(x)))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class Resnet(nn.Module):
    """ResNet-18 with the small stem, of another width."""

    def __init__(self, width=8):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        inputs = width
        for stage in range(4):
            outputs = width << stage
            blocks = [Basic(inputs, outputs, 2 if stage else 1), Basic(outputs, outputs, 1)]
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
            inputs = outputs
        self.fc = nn.Linear(inputs, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class Depthwise(nn.Module):
    """A MobileNet: conv3x3, then pairs of a depthwise 3x3 and a 1x1 convolution; batch norm and ReLU after each."""

    def __init__(self):
        super().__init__()
        self.count, inputs = 0, 8
        self.add(3, inputs, 3)
        for outputs, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
            self.add(inputs, inputs, 3, stride, inputs)
            self.add(inputs, outputs, 1)
            inputs = outputs
        self.fc = nn.Linear(inputs, 10)

    def add(self, inputs, outputs, kernel, stride=1, groups=1):
        self.count += 1
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.add_module(f"conv{self.count}", conv)
        self.add_module(f"bn{self.count}", nn.BatchNorm2d(outputs))

    def forward(self, x):
        for index in range(1, self.count + 1):
            x = F.relu(self.get_submodule(f"bn{index}")(self.get_submodule(f"conv{index}")(x)))
        return self.fc(x.mean((2, 3)))


class Vit(nn.Module):
    """Patches 4x4 of 16x16, width 24, 2 layers, 3 heads, learned positions, mean of the patches."""

    def __init__(self, width=24):
        super().__init__()
        self.patch, self.pos = nn.Conv2d(3, width, 4, 4), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width, 3, causal=False) for _ in range(2))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.pos.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x).mean(1))


MODELS = {
    "mlp": Mlp,
    "lenet": Lenet,
    "gpt": Gpt,
    "tabular": lambda: Linears(54, 48, 48, 48, 48, 7),
    "wide": lambda: Linears(784, 128, 128, 10),
    "online": lambda: Linears(784, 32, 10),
    "autoencoder": lambda: Linears(96, 64, 16, 8, 16, 64, 96),
    "vgg": Vgg,
    "resnet18": Resnet,
    "depthwise": Depthwise,
    "vit": Vit,
    "gpt-8x256": lambda: Gpt(context=32, width=32, heads=8, layers=8),
}


def hashed(name, index):
    """Numbers from 0 to below 1 that any language can make: a 32-bit hash of a name and indices."""
    key = 0
    for byte in name.encode():
        key = (key * 31 + byte) & 0xFFFFFFFF
    x = (index.astype(np.uint64) * np.uint64(2654435761) + np.uint64(key)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(0x45D9F3B)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    return x.astype(np.float64) / 2.0**32


def uniform(name, shape):
    """Numbers from -1 to below 1."""
    count = math.prod(shape)
    return torch.from_numpy(2.0 * hashed(name, np.arange(count)) - 1.0).reshape(shape)


def below(name, shape, bound):
    """Whole numbers from 0 to below a bound."""
    count = math.prod(shape)
    return torch.from_numpy((hashed(name, np.arange(count)) * bound).astype(np.int64)).reshape(shape)


def initialise(model):
    """Every parameter from the hash of its name: normalisations as they are, embeddings within +-0.5, all
    else within +-1/sqrt(fan_in) of its layer, rounded to f32."""
    fans = {}
    for name, parameter in model.named_parameters():
        layer = name.rsplit(".", 1)[0]
        if name.endswith("weight") and parameter.dim() > 1:
            fans[layer] = math.prod(parameter.shape[1:])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            layer = name.rsplit(".", 1)[0]
            if layer not in fans:
                continue
            scale = 0.5 if layer in ("tok", "pos") else 1.0 / math.sqrt(fans[layer])
            values = (uniform(name, tuple(parameter.shape)) * scale).float()
            parameter.copy_(values.to(parameter.dtype))
