"""Training steps of PyTorch, eager, on a GPU: the peers of tests/gpu/measure.py. Prints one JSON line.

usage: torch_steps.py SHAPE STEPS [--precision f32|tf32|bf16] [--tiny]

SHAPE is lenet (batch 512), resnet18 (batch 256) or gpt (12 layers of width 768, context 1,024, batch 8). AdamW, fixed random
inputs. Attention is `scaled_dot_product_attention`, which is flash attention in bf16. The time of a step is that of all steps,
waited for at the end, over their number, after 10 others: no step waits for the one before it. `--tiny` tries the script without a GPU, at sizes of no interest.
"""
import argparse, json, time

import torch
import torch.nn as nn
import torch.nn.functional as F


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 16, 1024), nn.ReLU(), nn.Linear(1024, 10))


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.a = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.b = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.down = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.nb(self.b(F.relu(self.na(self.a(x))))) + self.down(x))


def resnet18(width=64):
    layers, inputs = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()], width
    for stage in range(4):
        outputs = width * 2**stage
        layers += [Basic(inputs, outputs, 1 if stage == 0 else 2), Basic(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        samples, length, width = x.shape
        parts = self.qkv(self.n1(x)).split(width, 2)
        q, k, v = (t.view(samples, length, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(samples, length, width))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Gpt(nn.Module):
    def __init__(self, layers=12, heads=12, width=768, context=1024):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, ids):
        positions = torch.arange(ids.shape[1], device=ids.device)
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.positions(positions)))).flatten(0, 1)


SHAPES = {  # batch, sample, classes, model
    "lenet": (512, (1, 28, 28), 10, lenet),
    "resnet18": (256, (3, 32, 32), 10, resnet18),
    "gpt": (8, 1024, 256, Gpt),
}
TINY = {
    "lenet": (4, (1, 28, 28), 10, lenet),
    "resnet18": (2, (3, 8, 8), 10, lambda: resnet18(2)),
    "gpt": (2, 16, 256, lambda: Gpt(1, 2, 8, 16)),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("steps", type=int)
    parser.add_argument("--precision", default="f32", choices=["f32", "tf32", "bf16"])
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    batch, sample, classes, make = (TINY if arguments.tiny else SHAPES)[arguments.shape]
    device = "cpu" if arguments.tiny else "cuda"
    wait = (lambda: None) if arguments.tiny else torch.cuda.synchronize
    torch.manual_seed(0)
    tf32 = arguments.precision != "f32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    model = make().to(device)
    if isinstance(sample, int):
        x = torch.randint(0, 256, (batch, sample), device=device)
        y = torch.randint(0, classes, (batch * sample,), device=device)
    else:
        x, y = torch.randn(batch, *sample, device=device), torch.randint(0, classes, (batch,), device=device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step():
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=arguments.precision == "bf16"):
            outputs = model(x)
        loss = F.cross_entropy(outputs.float(), y)
        loss.backward()
        optimizer.step()

    for _ in range(10):
        step()
    wait()
    begin = time.perf_counter()
    for _ in range(arguments.steps):
        step()
    wait()
    seconds = time.perf_counter() - begin
    print(json.dumps({
        "shape": arguments.shape, "precision": arguments.precision, "ms": 1e3 * seconds / arguments.steps,
        "parameters": sum(p.numel() for p in model.parameters()), "peak_mib": 0 if arguments.tiny else torch.cuda.max_memory_allocated() / 2**20,
        "torch": torch.__version__}))


main()
