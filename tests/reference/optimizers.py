"""PyTorch's optimizers over 20 steps, for host/src/optim/reference_tests.rs.

python optimizers.py > optimizers.json, with PyTorch 2.15 on the CPU. PyTorch has no Lion: that is its
authors' algorithm 2 (Chen et al., 2023) on PyTorch's tensors.
"""

import json

import torch

torch.manual_seed(9)
F64 = torch.float64
STEPS = 20
START = {"fc.weight": torch.randn(2, 3, dtype=F64), "fc.bias": torch.randn(2, dtype=F64)}
# Of sizes from 1/1000 to 1000 of each other, so that ε counts.
SCALES = {"fc.weight": 10.0 ** torch.linspace(-3, 0, 6, dtype=F64).view(2, 3), "fc.bias": torch.ones(2, dtype=F64)}
GRADIENTS = [{name: SCALES[name] * torch.randn_like(p) for name, p in START.items()} for _ in range(STEPS)]


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = torch.sign(beta1 * m + (1 - beta1) * p.grad)
                p -= group["lr"] * (update + group["weight_decay"] * p)
                m.mul_(beta2).add_((1 - beta2) * p.grad)


def run(config, make):
    """The parameters after the last step; the bias has a group of its own without weight decay."""
    parameters = {name: torch.nn.Parameter(p.clone()) for name, p in START.items()}
    groups = [
        {"params": [parameters["fc.weight"]]},
        {"params": [parameters["fc.bias"]], "weight_decay": 0.0},
    ]
    optimizer = make(groups)
    for gradients in GRADIENTS:
        for name, p in parameters.items():
            p.grad = gradients[name].clone()
        optimizer.step()
    config["groups"] = [{"name": "no-decay", "parameters": ["*.bias"], "weight_decay": 0.0}]
    state = {}
    for name, p in parameters.items():
        for key, value in optimizer.state[p].items():
            if key != "step" and value is not None:
                state[f"{name}.{key}"] = value.flatten().tolist()
    values = {name: p.flatten().tolist() for name, p in parameters.items()}
    return {"config": config, "parameters": values, "state": state}


def adam(kind, make, decay, betas=(0.9, 0.999), eps=1e-8):
    config = {"kind": kind, "learning_rate": 0.05, "weight_decay": decay}
    config |= {"beta1": betas[0], "beta2": betas[1], "epsilon": eps}
    return run(config, lambda groups: make(groups, lr=0.05, betas=betas, eps=eps, weight_decay=decay))


def rmsprop(decay=0.0, momentum=0.0, centered=False, alpha=0.99, eps=1e-8):
    config = {"kind": "rmsprop", "learning_rate": 0.01, "weight_decay": decay, "alpha": alpha}
    config |= {"epsilon": eps, "momentum": momentum, "centered": centered}
    options = {"lr": 0.01, "weight_decay": decay, "momentum": momentum, "centered": centered}
    return run(config, lambda groups: torch.optim.RMSprop(groups, alpha=alpha, eps=eps, **options))


def sgd(decay, momentum, dampening, nesterov):
    config = {"kind": "sgd", "learning_rate": 0.05, "weight_decay": decay, "momentum": momentum}
    config |= {"dampening": dampening, "nesterov": nesterov}
    options = {"weight_decay": decay, "momentum": momentum, "dampening": dampening, "nesterov": nesterov}
    return run(config, lambda groups: torch.optim.SGD(groups, lr=0.05, **options))


def lion(decay, betas=(0.9, 0.99)):
    config = {"kind": "lion", "learning_rate": 0.01, "weight_decay": decay}
    config |= {"beta1": betas[0], "beta2": betas[1]}
    return run(config, lambda groups: Lion(groups, lr=0.01, betas=betas, weight_decay=decay))


CASES = [
    sgd(0.0, 0.0, 0.0, False),
    sgd(0.1, 0.9, 0.5, False),
    sgd(0.1, 0.9, 0.0, True),
    adam("adam", torch.optim.Adam, 0.0),
    adam("adam", torch.optim.Adam, 0.1, (0.8, 0.95), 1e-3),
    adam("adamw", torch.optim.AdamW, 0.01),
    adam("adamw", torch.optim.AdamW, 0.1, (0.8, 0.95), 1e-3),
    rmsprop(),
    rmsprop(decay=0.1, alpha=0.9, eps=1e-3),
    rmsprop(momentum=0.9),
    rmsprop(decay=0.1, centered=True, alpha=0.9),
    rmsprop(decay=0.1, momentum=0.9, centered=True, alpha=0.9, eps=1e-4),
    lion(0.0),
    lion(0.5, (0.95, 0.98)),
]


def flat(tensors):
    return {name: tensor.flatten().tolist() for name, tensor in tensors.items()}


print(
    json.dumps(
        {
            "torch": torch.__version__,
            "shapes": {name: list(p.shape) for name, p in START.items()},
            "start": flat(START),
            "gradients": [flat(gradients) for gradients in GRADIENTS],
            "cases": CASES,
        },
        indent=1,
    )
)
