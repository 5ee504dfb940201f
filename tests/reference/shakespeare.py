"""The gpt of the examples, trained on tinyshakespeare in PyTorch: what Sconce's is compared with.

usage: python shakespeare.py TEXT [--seed 0] [--epochs 1]
Needs torch and numpy. As `examples/shakespeare/run.json`: bytes; the last tenth is for validation; windows
of 64 bytes that don't overlap, in a random order; 12 windows a batch; AdamW, learning rate 1e-3, weight
decay 0.01; PyTorch's own initialisations. Prints one JSON line with the validation loss per byte.
"""
import argparse
import json

import torch
import torch.nn.functional as F

from models import Gpt

CONTEXT, BATCH = 64, 12

parser = argparse.ArgumentParser()
parser.add_argument("text")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--threads", type=int, default=2)
arguments = parser.parse_args()
torch.set_num_threads(arguments.threads)
torch.manual_seed(arguments.seed)


def windows(text):
    """(windows, 65): inputs and, one further, what comes next."""
    count = (len(text) - 1) // CONTEXT
    return torch.stack([text[i * CONTEXT : i * CONTEXT + CONTEXT + 1] for i in range(count)])


with open(arguments.text, "rb") as file:
    text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
held_out = round(len(text) * 0.1)
train, val = windows(text[:-held_out]), windows(text[-held_out:])
model = Gpt()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)


def loss_of(batch, reduction="mean"):
    outputs = model(batch[:, :-1])
    return F.cross_entropy(outputs.flatten(0, 1), batch[:, 1:].flatten(), reduction=reduction)


steps, total = 0, 0.0
for _ in range(arguments.epochs):
    for indices in torch.randperm(len(train)).split(BATCH):
        optimizer.zero_grad()
        loss = loss_of(train[indices])
        loss.backward()
        optimizer.step()
        steps += 1
        total += loss.item()
with torch.no_grad():
    total_val = sum(loss_of(batch, "sum").item() for batch in val.split(64))
print(json.dumps({
    "torch": torch.__version__.split("+")[0], "seed": arguments.seed, "epochs": arguments.epochs,
    "steps": steps, "train_loss": total / steps, "val_loss": total_val / (len(val) * CONTEXT),
}))
