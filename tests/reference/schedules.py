"""Writes schedules.json: learning rates of PyTorch's schedulers, each beside the configuration of `lr-schedule` that
must give the same ones. Run it with a Python that has torch, in this directory.
"""
import json, warnings
import torch
from torch.optim import lr_scheduler as s

warnings.filterwarnings("ignore")
BASE, TOTAL = 0.4, 24
METRICS = [5, 4, 3, 3, 3.00001, 3, 2.9999, 3, 3, 2, 2, 2, 2, 2, 2, 2.5, 1.99995, 2, 2, 2, 2, 2, 2, 2]
cases = []


def case(config, make, total=TOTAL, metrics=None):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)
    scheduler, rates = make(optimizer), []
    for step in range(total):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step(metrics[step]) if metrics else scheduler.step()
    cases.append({"config": config, "base": BASE, "total": total, "rates": rates} | ({"metrics": metrics} if metrics else {}))


def one(kind, make, **config):
    case({"schedule": {"kind": kind, **config}}, make)


def plateau(make_arguments, **config):
    case({"by": "epoch", "schedule": {"kind": "plateau", **config}}, lambda o: s.ReduceLROnPlateau(o, eps=0.0, **make_arguments),
         metrics=METRICS)


one("constant", lambda o: s.ConstantLR(o, factor=1.0))
one("constant", lambda o: s.ConstantLR(o, factor=0.5, total_iters=100), factor=0.5)
one("step", lambda o: s.StepLR(o, 5), every=5)
one("step", lambda o: s.StepLR(o, 7, 0.5), every=7, factor=0.5)
one("multi-step", lambda o: s.MultiStepLR(o, [3, 10, 11]), at=[3, 10, 11])
one("multi-step", lambda o: s.MultiStepLR(o, [3, 10, 11], 0.3), at=[3, 10, 11], factor=0.3)
one("exponential", lambda o: s.ExponentialLR(o, 0.9), factor=0.9)
one("linear", lambda o: s.LinearLR(o, 1.0, 0.0, TOTAL))
one("linear", lambda o: s.LinearLR(o, 0.2, 0.8, 10), **{"from": 0.2, "to": 0.8, "steps": 10})
one("cosine", lambda o: s.CosineAnnealingLR(o, TOTAL))
one("cosine", lambda o: s.CosineAnnealingLR(o, TOTAL, 0.05), min_rate=0.05)
one("cosine-restarts", lambda o: s.CosineAnnealingWarmRestarts(o, 6), period=6)
one("cosine-restarts", lambda o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01), period=3, growth=2, min_rate=0.01)
one("polynomial", lambda o: s.PolynomialLR(o, TOTAL, 1.0))
one("polynomial", lambda o: s.PolynomialLR(o, 15, 2.5), steps=15, power=2.5)
one("one-cycle", lambda o: s.OneCycleLR(o, BASE, total_steps=TOTAL))
one("one-cycle", lambda o: s.OneCycleLR(o, BASE, total_steps=TOTAL, pct_start=0.5, anneal_strategy="linear", div_factor=10,
                                        final_div_factor=100),
    rise=0.5, anneal="linear", start_divisor=10, end_divisor=100)
one("inverse-square-root", lambda o: s.LambdaLR(o, lambda t: ((t + 5) / 5) ** -0.5), timescale=5)
plateau({"patience": 1}, patience=1)
plateau({"patience": 2, "factor": 0.5, "cooldown": 2}, patience=2, factor=0.5, cooldown=2)
plateau({"patience": 0, "threshold": 0.5, "threshold_mode": "abs", "min_lr": 0.01},
        patience=0, threshold=0.5, threshold_is="absolute", min_rate=0.01)
plateau({"patience": 1, "mode": "max"}, patience=1, rule="greater")
for kind, warm_up in (
    ("linear", lambda o: s.LinearLR(o, 0.1, 1.0, 4)),
    ("constant", lambda o: s.ConstantLR(o, 0.1, 100)),
    ("exponential", lambda o: s.LambdaLR(o, lambda t: 0.1 ** (1 - t / 4))),
):
    case({"warm_up": {"steps": 4, "from": 0.1, "kind": kind}, "schedule": {"kind": "cosine"}},
         lambda o: s.SequentialLR(o, [warm_up(o), s.CosineAnnealingLR(o, TOTAL - 4)], [4]))
case({"chain": [{"steps": 5, "schedule": {"kind": "constant"}}, {"steps": 6, "schedule": {"kind": "exponential", "factor": 0.8}},
                {"schedule": {"kind": "polynomial", "power": 2}}]},
     lambda o: s.SequentialLR(o, [s.ConstantLR(o, 1.0), s.ExponentialLR(o, 0.8), s.PolynomialLR(o, TOTAL - 11, 2)], [5, 11]))

def momentum_case(config, make):
    """Momenta beside rates: those of PyTorch's one-cycle, or of a scheduler on an optimizer whose rate is the momentum."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE, momentum=0.9)
    scheduler, rates, momenta = make(optimizer), [], []
    for _ in range(TOTAL):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        momenta.append(float(optimizer.param_groups[0]["momentum"]))
        optimizer.step()
        scheduler.step()
    cases.append({"config": config, "base": BASE, "total": TOTAL, "rates": rates, "momenta": momenta})


momentum_case({"schedule": {"kind": "one-cycle"}, "momentum": {"kind": "opposite"}},
              lambda o: s.OneCycleLR(o, BASE, total_steps=TOTAL))
momentum_case({"schedule": {"kind": "one-cycle", "rise": 0.5, "anneal": "linear"}, "momentum": {"kind": "opposite", "low": 0.7, "high": 0.9}},
              lambda o: s.OneCycleLR(o, BASE, total_steps=TOTAL, pct_start=0.5, anneal_strategy="linear", base_momentum=0.7, max_momentum=0.9))
with open("schedules.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(entry) for entry in cases) + "\n]\n")
