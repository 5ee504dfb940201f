"""The models of the reference scripts, with Sconce's names: those of `shared/peers/torch_tasks.py`.

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
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).split(width, 2)
        heads = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(width), Attention(width, heads)
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


MODELS = {"mlp": Mlp, "lenet": Lenet, "gpt": Gpt}


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
    """Every parameter from the hash of its name: norms as they are, embeddings within +-0.5, all
    else within +-1/sqrt(fan_in) of its layer, rounded to f32."""
    fans = {}
    for name, parameter in model.named_parameters():
        layer = name.rsplit(".", 1)[0]
        if name.endswith("weight") and parameter.dim() > 1:
            fans[layer] = math.prod(parameter.shape[1:])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            layer = name.rsplit(".", 1)[0]
            if ".ln" in f".{name}":
                continue
            scale = 0.5 if layer in ("tok", "pos") else 1.0 / math.sqrt(fans[layer])
            values = (uniform(name, tuple(parameter.shape)) * scale).float()
            parameter.copy_(values.to(parameter.dtype))
