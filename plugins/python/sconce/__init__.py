"""Sconce in Python: hooks, and training.

A hook is a class with methods named after the mount points of a run; see `Hook`. The host embeds this package: inside a
run of the program, `import sconce` always finds the host's own copy, which has hooks alone. The copy that
`sconce new-plugin --language python` writes beside a hook is for editors, type checkers and tests (`sconce.testing`).

The installed package also trains: `train`, `load`, `check` and `compare`, which open the library that has the code at their first use.
"""

import importlib

from ._errors import (
    ConfigError,
    DataError,
    Error,
    HookError,
    InstallationError,
    InternalError,
    ManifestError,
    OrderError,
    PluginError,
    SconceWarning,
    TrainingError,
)
from ._hook import POINTS, Hook, Setup
from ._payload import Checkpoint, EpochProfile, Failure, HookTime, Outcome
from ._task import Module, Task
from ._tensor import Tensor

__all__ = [
    "POINTS",
    "Checkpoint",
    "ConfigError",
    "DataError",
    "EpochProfile",
    "Error",
    "Failure",
    "Hook",
    "HookError",
    "HookTime",
    "InstallationError",
    "InternalError",
    "ManifestError",
    "Module",
    "OrderError",
    "Outcome",
    "PluginError",
    "SconceWarning",
    "Setup",
    "Task",
    "Tensor",
    "TrainingError",
]

# What trains, from the subpackage of this name: imported when it is asked for, which hooks never do.
_TRAINING = ("train", "load", "check", "compare", "Run", "Prediction")

# Hooks in loops of PyTorch's, from the subpackage `loops`.
_LOOPS = ("Hooks", "LoopHooks")


def __getattr__(name):
    part = "training" if name in _TRAINING else "loops" if name in _LOOPS else None
    if part is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f".{part}", __name__)
    except ImportError:
        raise AttributeError(f"`sconce.{name}` is not there inside a run of the program: it is for scripts and notebooks") from None
    return getattr(module, name)


def __dir__():
    return [*globals(), *_TRAINING, *_LOOPS]
