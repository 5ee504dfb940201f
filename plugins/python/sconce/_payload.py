"""Arguments that single mount points have beside the task."""

from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Tuple


@dataclass(frozen=True)
class Outcome:
    """How the run ended: `kind` is `completed`, `stopped`, `interrupted` or `failed`.

    `reason` is the reason for a stop, the name of the signal, or the error.
    """

    kind: str
    reason: str


@dataclass(frozen=True)
class Failure:
    """The error that ends the run; `origin` is `task`, `data`, `hook`, `signal` or `host`, `hook` the hook's name."""

    origin: str
    hook: str
    message: str


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is about to be saved, was saved or loaded. Times in seconds, sizes in bytes."""

    path: Path
    tag: str
    asked_by: str
    error: Optional[str]
    bytes: int
    duration: float
    #: What a state keeps that names the checkpoint; None before it is on disk.
    reference: Optional[str] = None
    #: After a load: the references in the hooks' states whose checkpoints are gone.
    missing: Tuple[str, ...] = ()


@dataclass(frozen=True)
class HookTime:
    """Time that a hook took in a pass, in seconds."""

    name: str
    calls: int
    time: float
    longest: float
    #: Spent by the host on its requests (saving, deleting, validating) since the last `epoch_profile`.
    requests: float


@dataclass(frozen=True)
class EpochProfile:
    """Where the time of a pass went, in seconds."""

    total: float
    data: float
    forward: float
    loss: float
    backward: float
    update: float
    hooks: List[HookTime]


def checkpoint(path, tag, asked_by, error, size, duration, reference, missing):
    """For the host, which gives plain values."""
    return Checkpoint(Path(path), tag, asked_by, error, size, duration, reference, missing)


def profile(total, data, forward, loss, backward, update, hooks):
    """For the host, which gives plain values."""
    times = [HookTime(*hook) for hook in hooks]
    return EpochProfile(total, data, forward, loss, backward, update, times)
