"""Callbacks of Lightning, MMEngine and Keras, listed among Sconce's hooks of a loop.

```python
hooks = sconce.Hooks(["csv", lightning.pytorch.callbacks.EarlyStopping("val_loss", patience=2)], model=model, optimizer=optimizer)
```

**Parts.** `wrap`, in this file, makes a hook of a callback. `stand_in` has what the callbacks of all three ask about their trainer.
`lightning`, `mmengine` and `keras` say which of the framework's calls is made at which mount point, and which of its own callbacks find here
what they need: those are taken, and the framework's others refused, with the reason. A class of your own is taken, too: what it asks of its
trainer that is not here is an error, which names it.
"""

import importlib

from .._errors import HookError

#: Where each framework's base class is, and the module here that borrows from it.
_BASES = {
    ("lightning.pytorch.callbacks.callback", "Callback"): "lightning",
    ("pytorch_lightning.callbacks.callback", "Callback"): "lightning",
    ("mmengine.hooks.hook", "Hook"): "mmengine",
    ("keras.src.callbacks.callback", "Callback"): "keras",
}


def _framework_of(found):
    for base in type(found).__mro__:
        framework = _BASES.get((base.__module__, base.__name__))
        if framework is not None:
            return framework
    return None


def is_borrowed(found):
    """Whether an object is another framework's callback."""
    return _framework_of(found) is not None


def wrap(callback, model, optimizer):
    """A hook that makes the callback's calls; `model` and `optimizer` are the loop's."""
    framework = _framework_of(callback)
    kind = type(callback)
    if model is None:
        raise HookError(
            f"`{kind.__name__}` is {framework}'s, whose callbacks work on a model of PyTorch's: list it in `sconce.Hooks` or in a framework's "
            "callback of Sconce's"
        )
    module = importlib.import_module(f".{framework}", __name__)
    is_own = kind.__module__.split(".")[0] in module.PACKAGES
    if is_own and kind.__name__ not in module.KNOWN:
        raise HookError(
            f"`{kind.__name__}` can't be borrowed from {framework}: it needs more of its trainer than another loop has; "
            f"those that can are {', '.join(sorted(module.KNOWN))}"
        )
    return module.borrow(callback, model, optimizer)
