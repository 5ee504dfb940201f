"""Errors, and how exceptions are reported to the host."""

import difflib
import os
import sys
import traceback

#: Frames of a traceback that are reported, innermost last.
_MOST_FRAMES = 10
#: Characters of a message; the host truncates longer ones.
_LONGEST = 2500


class Error(Exception):
    """What Sconce refuses or fails at; the text says what to do."""


class InstallationError(Error):
    """A file of the installation is missing."""


class ManifestError(Error):
    """The manifest, or an argument, is wrong; nothing was trained."""


class DataError(Error):
    """The data are wrong, or not what the model was trained for."""


class PluginError(Error):
    """A plugin was refused, or none has a hook that the manifest names; nothing was trained."""


class TrainingError(Error):
    """The training failed, or its results can't be written. `run` is what there is of the run, or None."""

    run = None
    hook = None


class InternalError(Error):
    """A mistake of Sconce's own."""


class SconceWarning(UserWarning):
    """A warning of Sconce or of a hook."""


class HookError(Error):
    """What the host refuses, and what a hook raises to report a failure without the name of an exception's type. Where it ended a
    run in this process, `run` is what there is of the run, and `hook` the name of its entry."""

    run = None
    hook = None


class OrderError(HookError):
    """A loop that calls hooks itself has left a call out, or made one out of order; the text names it."""


class ConfigError(HookError):
    """A problem of the configuration, with the path of the key: `ConfigError("edges[2]", "must be above 0")`."""

    def __init__(self, path, message):
        super().__init__(message)
        self.path = path


def describe(value):
    """An exception in one line, as the last line of a traceback."""
    kind = type(value)
    text = str(value)
    if isinstance(value, HookError):
        return text or kind.__name__
    if isinstance(value, SystemExit):
        return f"SystemExit: the hook called sys.exit({'' if value.code is None else repr(value.code)})"
    known = kind.__module__ in ("builtins", "__main__")
    name = kind.__qualname__ if known else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, AttributeError):
        text += _near(getattr(value, "obj", None), getattr(value, "name", None))
    return f"{name}: {text}" if text else name


def _near(owner, name):
    """A suggestion for an unknown attribute of a type of this package; Python before 3.10 doesn't say what has it."""
    if not isinstance(name, str) or not type(owner).__module__.startswith(f"{__package__}."):
        return ""
    near = difflib.get_close_matches(name, [one for one in dir(owner) if not one.startswith("_")], 1)
    return f"; did you mean `{near[0]}`?" if near else ""


def _shown(path):
    """A path as the user would write it: relative to the working directory if it is below it."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if relative.startswith("..") else relative


def _frames(trace):
    frames = traceback.extract_tb(trace)
    # Those of this package say nothing about the hook, nor do those of the import system.
    own = ("<sconce", "<frozen importlib", os.path.join(os.path.dirname(globals().get("__file__", "<sconce>")), "_"))
    return [f for f in frames if not f.filename.startswith(own)]


def _hint(value):
    name = getattr(value, "name", None)
    if isinstance(value, ModuleNotFoundError) and isinstance(name, str):
        package = name.partition(".")[0]
        return f"hint: install it into this environment: {sys.executable} -m pip install {package}"
    return None


def explain(value, file):
    """Message, place and path inside the configuration of an exception; the last two may be empty."""
    frames = _frames(value.__traceback__)
    own = [f for f in frames if file and os.path.abspath(f.filename) == file]
    place = ""
    if isinstance(value, SyntaxError) and value.filename:
        place = f"{_shown(value.filename)}:{value.lineno or 0}"
    elif own:
        place = f"{_shown(own[-1].filename)}:{own[-1].lineno}"
    lines = [describe(value)[:_LONGEST]]
    cause, depth = value, 0
    while depth < 3:
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        if cause is None:
            break
        lines.append(f"caused by {describe(cause)[:200]}")
        depth += 1
    hint = _hint(value)
    if hint:
        lines.append(hint)
    # What the hook raises for the user needs no traceback.
    if frames and not isinstance(value, ConfigError):
        skipped = len(frames) - _MOST_FRAMES
        if skipped > 0:
            lines.append(f"  … {skipped} more")
        for frame in frames[-_MOST_FRAMES:]:
            lines.append(f"  {_shown(frame.filename)}:{frame.lineno} in {frame.name}")
            if frame.line:
                lines.append(f"    {frame.line[:120]}")
    path = value.path if isinstance(value, ConfigError) else None
    return "\n".join(lines), place, path
