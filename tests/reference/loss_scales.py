"""Writes loss_scales.json: the scales of PyTorch's `torch.amp.GradScaler` after updates whose gradients are finite (1) or
not (0), each beside the configuration of `loss-scale` that must give the same ones. Run it with a Python that has torch,
in this directory.
"""
import json
import torch

GOOD = [1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1]
cases = []
for config in ({"scale": 1024.0, "growth_interval": 3},
               {"scale": 1000.0, "growth_interval": 2, "growth_factor": 1.5, "backoff_factor": 0.25}):
    scaler = torch.amp.GradScaler("cpu", init_scale=config["scale"], growth_interval=config["growth_interval"],
                                  growth_factor=config.get("growth_factor", 2.0),
                                  backoff_factor=config.get("backoff_factor", 0.5))
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scales = []
    for good in GOOD:
        optimizer.zero_grad()
        scaler.scale((parameter * (1.0 if good else float("inf"))).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    cases.append({"config": config, "good": GOOD, "scales": scales})
with open("loss_scales.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(entry) for entry in cases) + "\n]\n")
