"""Parameters, multiply-adds and activations of models, for `model-complexity`.

    python complexity.py > complexity.json        # torch 2.x, fvcore, torchinfo

Multiply-adds are fvcore's of convolutions, linear layers and matrix products (it counts norms and
pooling too, which are left out here); parameters and the elements of each layer's output are torchinfo's.
Keys are the names that the layers have in the test's manifests.
"""

import json
import logging
from collections import OrderedDict

import torch
import torchinfo
from fvcore.nn import FlopCountAnalysis
from torch import nn

logging.getLogger("fvcore").setLevel(logging.ERROR)
PRODUCTS = {"conv", "linear", "matmul", "addmm", "bmm"}


def lenet():
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(1, 6, 5, padding=2), act1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, 5), act2=nn.ReLU(), pool2=nn.MaxPool2d(2), flat=nn.Flatten(),
        fc1=nn.Linear(400, 120), act3=nn.ReLU(), fc2=nn.Linear(120, 84), act4=nn.ReLU(),
        fc3=nn.Linear(84, 10)))


def mlp():
    return nn.Sequential(OrderedDict(
        flat=nn.Flatten(), fc1=nn.Linear(784, 8), act1=nn.ReLU(), fc2=nn.Linear(8, 10)))


def grouped():
    return nn.Sequential(OrderedDict(
        stem=nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False), norm=nn.BatchNorm2d(8),
        body=nn.Sequential(OrderedDict(
            wide=nn.Conv2d(8, 8, (3, 1), groups=8), act=nn.GELU(), mix=nn.Conv2d(8, 12, 1))),
        flat=nn.Flatten(), head=nn.Linear(12 * 12 * 14, 10)))


def figures(model):
    x = torch.zeros(1, 1, 28, 28)
    model.eval()
    counts = FlopCountAnalysis(model, x).by_module_and_operator()
    info = torchinfo.summary(model, input_data=x, verbose=0, depth=9)
    names = {id(module): name for name, module in model.named_modules()}
    modules = {}
    for layer in info.summary_list:
        name = names[id(layer.module)]
        if name:
            modules[name] = {
                "parameters": sum(p.numel() for p in layer.module.parameters()),
                "multiply_adds": int(sum(n for op, n in counts[name].items() if op in PRODUCTS)),
                "output": list(layer.output_size[1:]),
            }
    leaves = [layer for layer in info.summary_list if layer.is_leaf_layer]
    return {
        "parameters": info.total_params,
        "multiply_adds": int(sum(n for op, n in counts[""].items() if op in PRODUCTS)),
        "activations": sum(torch.Size(layer.output_size[1:]).numel() for layer in leaves),
        "modules": modules,
    }


print(json.dumps({f.__name__: figures(f()) for f in (mlp, lenet, grouped)}, indent=None))
