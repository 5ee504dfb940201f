"""Writes range_tests.json: losses at growing learning rates, smoothed as PyTorch Lightning's `_LRCallback` does, and the
rates that its `_LRFinder.suggestion` finds (`torch.gradient` over the steps, all but the first 10 and the last one) or
that have the least loss, by ten. Run it with a Python that has torch, in this directory.
"""
import json
import torch

torch.manual_seed(0)
cases = []
for smoothing in (0.0, 0.9, 0.98):
    rates = torch.logspace(-6, 1, 80, dtype=torch.float64)
    x = torch.log10(rates)
    losses = 2.3 - 1.5 * torch.sigmoid(3 * (x + 3)) + torch.relu(x + 0.5) ** 3 + 0.02 * torch.randn(80, dtype=torch.float64)
    average, smoothed = 0.0, []
    for step, loss in enumerate(losses.tolist()):
        average = smoothing * average + (1 - smoothing) * loss
        smoothed.append(average / (1 - smoothing ** (step + 1)))
    kept = torch.tensor(smoothed, dtype=torch.float64)[10:-1]
    steepest = rates[10 + torch.gradient(kept)[0].argmin()].item()
    minimum = rates[10 + kept.argmin()].item() / 10
    cases.append({"smoothing": smoothing, "rates": rates.tolist(), "losses": losses.tolist(), "smoothed": smoothed,
                  "steepest": steepest, "minimum": minimum})
with open("range_tests.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(entry) for entry in cases) + "\n]\n")
