"""Sconce in Python: hooks, and training.

A hook is a class with methods named after the mount points of a run; see `Hook`. The host embeds this package: inside a
run of the program, `import sconce` always finds the host's own copy, which has hooks alone. The copy that
`sconce new-plugin --language python` writes beside a hook is for editors, type checkers and tests (`sconce.testing`).

The installed package also trains: `train`, `load`, `check` and `compare`, which open the library that has the code at their first use.
"""

from ._errors import (
    ConfigError,
    DataError,
    Error,
    HookError,
    InstallationError,
    InternalError,
    ManifestError,
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


def __getattr__(name):
    if name not in _TRAINING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import training
    except ImportError:
        raise AttributeError(f"`sconce.{name}` is not there inside a run of the program: it is for scripts and notebooks") from None
    return getattr(training, name)


def __dir__():
    return [*globals(), *_TRAINING]
