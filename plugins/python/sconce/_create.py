"""What the host calls: creates hooks, saves their states, ends."""

import atexit
import contextlib
import difflib
import gc
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
import sysconfig
import threading
import types

from . import _config, _objects, _output, _payload, _state
from ._errors import ConfigError, HookError, explain
from ._hook import POINTS, Hook, Setup
from ._native import Task as _Native
from ._task import Module, Task
from ._tensor import Tensor

_native = _Native()
# Hooks' own files, and hashes of the sources of all that was imported from beside them.
_loaded = {}
_hashes = {}


# Whether this process is Python's own, which trains by `sconce.train`: nothing of it is the hooks' to change or to end.
is_guest = "sconce._sconce" in sys.modules


def begin(switch_interval):
    """Once, before the first hook."""
    if is_guest:
        return
    sys.argv = ["sconce"]
    sys.setswitchinterval(switch_interval)
    _output.redirect(_native._log)


def _load(file, module):
    """The module with the hook, imported again if it or what lies beside it has changed since."""
    directory = os.path.dirname(file) if file else os.getcwd()
    _forget_changed(directory)
    loaded = _load_file(file) if file else _import(module, directory)
    for source in _sources(directory).values():
        _hashes.setdefault(source, _hash(source))
    return loaded


def _sources(directory):
    """The sources of modules that lie below a directory, by the modules' names; neither this package's nor those that are installed."""
    below, standard = (os.path.join(path, "") for path in (directory, sysconfig.get_path("stdlib")))
    found = {}
    for name, module in list(sys.modules.items()):
        # What stands there in a module's place may answer anything for any attribute.
        known = vars(module) if isinstance(module, types.ModuleType) else {}
        file = known.get("__file__")
        if file is None:
            # A package without `__init__.py` has directories alone.
            file = next(iter(known.get("__path__") or ()), None)
        elif not isinstance(file, str) or not file.endswith(".py"):
            continue
        is_below = isinstance(file, str) and file.startswith(below) and not file.startswith(standard)
        if is_below and "site-packages" not in file and name.split(".")[0] not in (__package__, "__main__"):
            found[name] = file
    return found


def _hash(file):
    try:
        with open(file, "rb") as opened:
            return hashlib.sha256(opened.read()).digest()
    except OSError:
        return None


def _forget_changed(directory):
    """Has the modules below a directory imported again if one of them has changed. Hooks that were created from them keep them."""
    sources = _sources(directory)
    changed = [file for file in sources.values() if file in _hashes and _hash(file) != _hashes[file]]
    if not changed:
        return
    for name, file in sources.items():
        del sys.modules[name]
        _loaded.pop(file, None)
        _hashes.pop(file, None)
    for file in changed:
        # Python knows compiled code by a file's size and the second of its last change.
        with contextlib.suppress(OSError, NotImplementedError):
            os.remove(importlib.util.cache_from_source(file))
    importlib.invalidate_caches()


def _import(module, directory):
    if directory not in sys.path:
        sys.path.append(directory)
    return importlib.import_module(module)


def _load_file(file):
    known = _loaded.get(file)
    if known is not None:
        return known
    directory, base = os.path.split(file)
    # At the end: a hook in `wandb.py` still imports the package wandb.
    if directory not in sys.path:
        sys.path.append(directory)
    name = f"sconce_hook_{os.path.splitext(base)[0]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None:
        raise ConfigError("file", f"{file} is not a Python file: its name must end in .py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    _loaded[file] = loaded
    return loaded


def _kind(loaded, name):
    """The class of the hook."""
    found = {
        key: value
        for key, value in vars(loaded).items()
        if isinstance(value, type) and issubclass(value, Hook) and value is not Hook
    }
    where = getattr(loaded, "__file__", None) or loaded.__name__
    if name:
        if name in found:
            return found[name]
        near = difflib.get_close_matches(name, found, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        if hasattr(loaded, name):
            raise ConfigError("class", f"`{name}` in {where} is not a subclass of sconce.Hook")
        raise ConfigError("class", f"there is no class `{name}` in {where}{hint}")
    own = {key: value for key, value in found.items() if value.__module__ == loaded.__name__} or found
    leaves = [one for one in own.values() if not any(other is not one and issubclass(other, one) for other in own.values())]
    if len(leaves) == 1:
        return leaves[0]
    if not leaves:
        raise HookError(f"{where} has no subclass of sconce.Hook")
    names = ", ".join(sorted(one.__name__ for one in leaves))
    raise ConfigError("", f"{where} has several hooks: choose one with `class`: {names}")


#: What hooks in Rust and other systems call the methods of the state.
_STATE = {
    "save_state": "state_dict",
    "get_state": "state_dict",
    "load_state": "load_state_dict",
    "set_state": "load_state_dict",
    "restore_state": "load_state_dict",
}


def _methods(instance, setup):
    """The methods at mount points that the hook has, by name."""
    found = {}
    for name in POINTS:
        method = getattr(instance, name, None)
        if method is None:
            continue
        if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
            raise HookError(f"`{name}` is a coroutine or a generator: the host would never run it")
        found[name] = method
    for name in dir(type(instance)):
        if name in POINTS or name.startswith("_") or hasattr(Hook, name) or not callable(getattr(type(instance), name, None)):
            continue
        if name in _STATE:
            setup.warn(f"`{name}` is never called; did you mean `{_STATE[name]}`?")
            continue
        begins_like_one = name.startswith(("before_", "after_", "on_", "module_", "epoch_"))
        # What other systems call a batch or a step is an iteration here.
        known = name.replace("batch", "iter").replace("step", "update")
        near = difflib.get_close_matches(known, POINTS, 1, 0.75 if begins_like_one else 0.9)
        if near:
            setup.warn(f"`{name}` is never called: it is not a mount point; did you mean `{near[0]}`?")
    if not found:
        setup.warn("it is never called: it has no method named after a mount point")
    return found


def _declare(instance):
    """Tells the host which metrics the hook publishes, what it asks for and what it reads."""
    names = instance.publishes
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise HookError(f'`publishes` is a list of metrics\' names, as in `publishes = ["worst_f1"]`, found {names!r}')
    for name in names:
        _native._publishes(name)
    for key, declare in ("asks", _native._asks), ("reads", _native._reads):
        names = getattr(instance, key)
        if names is None:
            continue
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise HookError(f'`{key}` is a list of names, as in `asks = ["stop"]` and `reads = ["loss"]`, found {names!r}')
        declare(",".join(names))


def _instance(kind, config, setup):
    try:
        return kind(config, setup)
    except ValueError as error:
        option, message = _config.blamed(error)
        if not option:
            raise
        raise ConfigError(option, message) from None


def create(file, module, name, config, facts, number):
    """A hook: its methods by mount point, its functions for the state, and its file. One that is an object of this process has a
    number, as text."""
    found = _objects.get(int(number)) if number else _kind(_load(file, module), name)
    kind = found if isinstance(found, type) else type(found)
    setup = Setup(json.loads(facts))
    try:
        if found is kind:
            instance = _instance(kind, _config.read(kind, json.loads(config)), setup)
        else:
            instance = found
            instance.setup = setup
    except ConfigError as error:
        # The hook's configuration is a key of the entry's.
        inner = error.path
        error.path = f"config.{inner}" if inner and not inner.startswith("[") else f"config{inner}"
        raise
    _declare(instance)
    has_state = kind.state_dict is not Hook.state_dict
    source = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return (
        _methods(instance, setup),
        (lambda: _state.encode(instance.state_dict())) if has_state else None,
        lambda data: _restore(instance, _state.decode(data)),
        os.path.abspath(source) if source else "",
    )


def _restore(instance, state):
    # None is what a hook returns that has nothing to store yet.
    if state is not None:
        instance.load_state_dict(state)


def collect():
    """Frees what only cycles keep alive."""
    gc.collect()


# Seconds that threads have to end, after the last hook.
END = 10


def _others():
    own = threading.main_thread(), threading.current_thread()
    return [thread for thread in threading.enumerate() if thread not in own and not thread.daemon]


def _end_threads():
    for call in reversed(list(getattr(threading, "_threading_atexits", ()))):
        call()
    for thread in _others():
        thread.join()


def finish():
    """Once, after the last hook: what an interpreter does at its end, except ending, and waiting for ever."""
    if is_guest:
        return
    waits = threading.Thread(target=_end_threads, daemon=True)
    waits.start()
    waits.join(END)
    if waits.is_alive():
        names = ", ".join(f"`{thread.name}`" for thread in _others())
        raise HookError(f"threads have not ended {END} s after the run: {names or 'of an executor'}; they end with the process")
    atexit._run_exitfuncs()
    _output.flush()


task = Task()
module = Module
checkpoint = _payload.checkpoint
failure = _payload.Failure
outcome = _payload.Outcome
profile = _payload.profile
tensor_type = Tensor
hook_error = HookError
described = explain
prefix = sys.prefix
