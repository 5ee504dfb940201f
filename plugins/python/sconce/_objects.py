"""Hooks that were given as objects of this process, by the numbers that manifests name them by."""

from ._errors import HookError

_kept: dict = {}


def keep(found):
    """Keeps a class or an instance; returns its number: the first that is free, so that a run that is resumed has the same."""
    number = next(number for number in range(1, len(_kept) + 2) if number not in _kept)
    _kept[number] = found
    return number


def forget(number):
    """Forgets an object."""
    _kept.pop(number, None)


def get(number):
    """The object with a number."""
    found = _kept.get(number)
    if found is None:
        raise HookError(
            f"there is no hook {number} in this process: one that was defined in a notebook or a script can't run in a process of its "
            "own, nor by the manifest of its run; put the class into a file, and name that"
        )
    return found
