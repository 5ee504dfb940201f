"""Hooks at a PyTorch model's modules: after the forward pass of each."""

import re

from .tensors import NotShown, address


class Modules:
    """A model's modules, in its own order, without the model itself."""

    def __init__(self, model):
        modules = getattr(model, "named_modules", list)()
        self._modules = [(name, module) for name, module in modules if name]
        self._handles = []

    def plan(self):
        """The modules as the loop's plan lists them."""
        return [{"name": name, "kind": _kind(module)} for name, module in self._modules]

    def watch(self, listens, call):
        """Calls `call(index, input, output)` after a module's forward pass, if `listens(index)` says that hooks are called there."""

        def watcher(index):
            def computed(_module, inputs, output):
                if listens(index):
                    shown = _tensor(inputs), _tensor(output)
                    call(index, *map(_address, shown))

            return computed

        for index, (_, module) in enumerate(self._modules):
            self._handles.append(module.register_forward_hook(watcher(index)))

    def leave(self):
        """Calls no more."""
        for handle in self._handles:
            handle.remove()
        self._handles = []


def _kind(module):
    """Sconce's name of a kind of layer: `MaxPool2d` is `max-pool2d`; those that a plugin knows are one word."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "-", type(module).__name__).lower()


def _tensor(value):
    """The first tensor in what a module takes or gives, without the graph that led to it."""
    if isinstance(value, (tuple, list)):
        value = value[0] if value else None
    return value.detach() if hasattr(value, "detach") else None


def _address(tensor):
    if tensor is None:
        return None
    try:
        return address(tensor)
    except NotShown:
        return None
