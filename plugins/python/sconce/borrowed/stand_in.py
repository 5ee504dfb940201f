"""What stands for the trainer of a borrowed callback."""

import numbers

from .._errors import HookError
from .._hook import Hook


class NotLent(HookError, AttributeError):
    """A callback asks for something of its trainer that another loop has not."""


class StandIn:
    """Has what is set in it; for anything else the error says whose callback wanted it."""

    def __init__(self, what, whose, **known):
        self.__dict__.update(known, _what=what, _whose=whose)

    def __getattr__(self, name):
        raise NotLent(f"`{self._whose}` asks for `{self._what}.{name}`, which a loop that borrows it has not")


class OneProcess:
    """A strategy of one process."""

    def reduce_boolean_decision(self, decision, all=True):
        return decision

    def broadcast(self, value, src=0):
        return value

    def barrier(self, name=None):
        pass


class BorrowedHook(Hook):
    """A hook that calls another framework's callback.

    Its methods at mount points are set one by one, so that nothing is called where the callback has nothing.
    """

    asks = ("stop", "stop_after_epoch", "set_learning_rate")
    reads = ("loss", "groups", "parameters")

    def __init__(self, callback):
        super().__init__()
        self.callback = callback

    def overrides(self, base, *names):
        """Whether the callback has a method of its own of one of these names."""
        own, kind = vars(self.callback), type(self.callback)
        return any(name in own or getattr(kind, name, None) is not getattr(base, name, None) for name in names)

    def state_dict(self):
        """What can be kept of a callback that has no states of its own: numbers and texts."""
        return {name: value for name, value in vars(self.callback).items() if _is_plain(value)}

    def load_state_dict(self, state):
        vars(self.callback).update(state)


def _is_plain(value):
    return value is None or isinstance(value, (bool, str)) or isinstance(value, numbers.Real) and type(value) in (int, float)


def metrics(task, phase="val", prefix="val_"):
    """The metrics of the last pass of the training and of another phase, as frameworks name them."""
    found = dict(task.metrics_of("train"))
    found.update({f"{prefix}{name}": value for name, value in task.metrics_of(phase).items()})
    return found
