"""Hooks for Sconce in Python.

A hook is a class with methods named after the mount points of a run; see `Hook`. The host embeds this package: inside a
run, `import sconce` always finds the host's own copy. The copy that `sconce new-plugin --language python` writes beside a
hook is for editors, type checkers and tests (`sconce.testing`).
"""

from ._errors import ConfigError, HookError
from ._hook import POINTS, Hook, Setup
from ._payload import Checkpoint, EpochProfile, Failure, HookTime, Outcome
from ._task import Module, Task
from ._tensor import Tensor

__all__ = [
    "POINTS",
    "Checkpoint",
    "ConfigError",
    "EpochProfile",
    "Failure",
    "Hook",
    "HookError",
    "HookTime",
    "Module",
    "Outcome",
    "Setup",
    "Task",
    "Tensor",
]
