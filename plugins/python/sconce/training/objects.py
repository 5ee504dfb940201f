"""Hooks that are objects of this process: classes defined in a cell, and instances of them."""

from .. import _objects, borrowed
from .._errors import ManifestError
from .._hook import Hook


def entries(hooks, model=None, optimizer=None):
    """The manifest's entries for hooks, and a function that forgets their objects. Callbacks of other frameworks work on `model` and
    `optimizer`, if those are PyTorch's."""
    numbers = []
    lent = [_lend(hook, model, optimizer) for hook in hooks]
    made = [_entry(hook, numbers) for hook in lent]

    def forget():
        for number in numbers:
            _objects.forget(number)

    return made, forget


def has_objects(hooks):
    """Whether a hook is an object of this process."""
    return any(_object(hook) is not None or borrowed.is_borrowed(hook) for hook in hooks)


def _lend(hook, model, optimizer):
    """A hook in the place of another framework's callback."""
    if borrowed.is_borrowed(hook):
        made = borrowed.wrap(hook, model, optimizer)
        return {"hook": made, "name": type(hook).__name__}
    if isinstance(hook, dict) and borrowed.is_borrowed(hook.get("hook")):
        return hook | {"hook": borrowed.wrap(hook["hook"], model, optimizer)}
    return hook


def _object(hook):
    found = hook.get("hook") if isinstance(hook, dict) else hook
    is_class = isinstance(found, type) and issubclass(found, Hook)
    return found if is_class or isinstance(found, Hook) else None


def _entry(hook, numbers):
    found = _object(hook)
    if found is None:
        if not isinstance(hook, (str, dict)):
            raise ManifestError(
                f"a hook is {type(hook).__name__}: a hook's name, an entry as in a manifest, a subclass of sconce.Hook or an "
                "instance of one is expected"
            )
        return hook
    kind = found if isinstance(found, type) else type(found)
    entry = dict(hook) if isinstance(hook, dict) else {}
    if entry.get("isolation", "none") not in ("none", None):
        raise ManifestError(
            f"`{kind.__name__}` is defined in this process, and can't run apart: remove `isolation`, or put the class into a file "
            "and name that"
        )
    config = entry.pop("config", {})
    if config and not isinstance(found, type):
        raise ManifestError(f"`{kind.__name__}` is made already: give it its configuration there, or pass the class")
    number = _objects.keep(found)
    numbers.append(number)
    entry["hook"] = "python"
    entry.setdefault("name", kind.__name__)
    entry["config"] = {"object": number, "config": config}
    return entry
