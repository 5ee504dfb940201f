"""100 AdamW steps of mlp, lenet and gpt from a fixed initialisation on fixed batches.

usage: python training.py > training.json
Needs torch and numpy. `tests/it/pytorch.rs` repeats the steps in Sconce and compares the losses.
AdamW with PyTorch's defaults: learning rate 1e-3, betas 0.9 and 0.999, eps 1e-8, weight decay 0.01.
Ten batches in rotation; in f64, so that the figures are the arithmetic's and not the rounding's; the
f32 losses of PyTorch itself stand beside them.
"""
import json

import torch
import torch.nn.functional as F

from models import MODELS, below, initialise, uniform

BATCH = {"mlp": 64, "lenet": 8, "gpt": 4}
BATCHES, STEPS = 10, 100


def batch(task, index):
    size = BATCH[task]
    if task == "gpt":
        tokens = below(f"tokens/{index}", (size, 65), 256)
        return tokens[:, :-1], tokens[:, 1:]
    return uniform(f"images/{index}", (size, 1, 28, 28)).float(), below(f"labels/{index}", (size,), 10)


def losses(task, dtype):
    torch.manual_seed(0)
    model = MODELS[task]()
    initialise(model)
    model = model.to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    found = []
    for step in range(STEPS):
        x, y = batch(task, step % BATCHES)
        x = x if task == "gpt" else x.to(dtype)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    result = {"torch": torch.__version__.split("+")[0], "steps": STEPS, "batches": BATCHES, "tasks": {}}
    for task in MODELS:
        result["tasks"][task] = {
            "batch_size": BATCH[task],
            "f64": losses(task, torch.float64),
            "f32": losses(task, torch.float32),
        }
    print(json.dumps(result, indent=1))
