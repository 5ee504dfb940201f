"""100 AdamW steps of each of the models of `models.py` from a fixed initialisation on fixed batches.

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

BATCH = {"mlp": 64, "lenet": 8, "gpt": 4, "tabular": 32, "wide": 16, "online": 1, "autoencoder": 16}
BATCH |= {"vgg": 8, "resnet18": 8, "depthwise": 8, "vit": 8, "gpt-8x256": 2}
CONTEXT = {"gpt": 64, "gpt-8x256": 32}
SAMPLE = {"tabular": (54,), "autoencoder": (96,), "vgg": (1, 12, 12)} | dict.fromkeys(["resnet18", "depthwise", "vit"], (3, 16, 16))
CLASSES = {"tabular": 7}
BATCHES, STEPS = 10, 100


def batch(task, index):
    size = BATCH[task]
    if task in CONTEXT:
        tokens = below(f"tokens/{index}", (size, CONTEXT[task] + 1), 256)
        return tokens[:, :-1], tokens[:, 1:]
    x = uniform(f"images/{index}", (size, *SAMPLE.get(task, (1, 28, 28)))).float()
    return x, x if task == "autoencoder" else below(f"labels/{index}", (size,), CLASSES.get(task, 10))


def losses(task, dtype):
    torch.manual_seed(0)
    model = MODELS[task]()
    initialise(model)
    model = model.to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    found = []
    for step in range(STEPS):
        x, y = batch(task, step % BATCHES)
        x = x if task in CONTEXT else x.to(dtype)
        optimizer.zero_grad()
        outputs = model(x)
        if task == "autoencoder":
            loss = F.mse_loss(outputs, x)
        else:
            loss = F.cross_entropy(outputs.flatten(0, -2), y.flatten())
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
