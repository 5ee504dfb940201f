"""Trains in this process."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Union

from .. import _errors
from .._errors import SconceWarning
from . import progress as progress_
from .arguments import Request, as_path
from .history import History
from .installation import extension
from .run import Run, problem
from .table import Table
from .words import spoken

if TYPE_CHECKING:
    from ..manifest import Manifest

    _Path = Union[str, os.PathLike[str]]

#: Seconds between looks at signals.
_LOOK = 0.1
#: Names of the parts of a position, in the order in which the library has them.
_POSITION = (
    "phase",
    "epoch",
    "epochs",
    "batch",
    "batches",
    "iteration",
    "samples",
    "loss",
    "learning_rate",
    "elapsed",
    "remaining",
)
#: Exceptions by the exit code that the command line has for them.
_BY_CODE = {2: "DataError", 3: "PluginError", 4: "HookError"}


def train(
    manifest: Union[Manifest, Mapping[str, Any], _Path],
    data: Any = None,
    hooks: Iterable[Any] = (),
    *,
    output: Optional[_Path] = None,
    resume: Union[bool, _Path, None] = None,
    allow_changes: bool = False,
    overwrite: bool = False,
    plugins: Iterable[_Path] = (),
    set: Iterable[str] = (),
    progress: bool = True,
    verbose: bool = False,
) -> Run:
    """Trains a model, and returns the run.

    `manifest` is a dictionary or the path of a file. `data` are arrays or tables in memory for the manifest's `data`: a pair of inputs
    and targets, a DataFrame, or a dictionary by the keys of that section. `hooks` are added to the manifest's: names, entries,
    subclasses of `sconce.Hook` or instances of them.

    `output` is the run's directory, by default the manifest's; `resume` continues the run in it: True, or the tag or path of a checkpoint.
    `overwrite` removes an earlier run's checkpoints from it. `progress=False` shows none; `verbose=True` prints what the command line logs.

    Ctrl-C saves a checkpoint and ends the run, which is returned with the outcome `interrupted`; a second one raises
    KeyboardInterrupt at once, while the run ends on its own thread.
    """
    request = Request(manifest, data, tuple(hooks))
    given = (
        request.path,
        request.text,
        list(set),
        [as_path(directory) for directory in plugins],
        request.provided,
        as_path(output),
        "latest" if resume is True else as_path(resume or None),
        bool(allow_changes),
        bool(overwrite),
    )
    history = History()
    try:
        wait, interrupt, result = extension().start(*given)
        shown = progress_.of(history, progress)
        try:
            _follow(wait, interrupt, history, shown, verbose)
        finally:
            shown.close()
    finally:
        request.forget()
    return _result(result, history)


def check(
    manifest: Union[Manifest, Mapping[str, Any], _Path],
    data: Any = None,
    hooks: Iterable[Any] = (),
    *,
    plugins: Iterable[_Path] = (),
    set: Iterable[str] = (),
) -> Table:
    """Checks what `train` would be given, without training: a table of the problems and warnings, empty if there are none."""
    request = Request(manifest, data, tuple(hooks))
    given = request.path, request.text, list(set), [as_path(directory) for directory in plugins], request.provided
    found = Table()
    try:
        found.extend(_finding("warning", text) for text in extension().check(*given))
    except (_errors.ManifestError, _errors.DataError, _errors.PluginError) as error:
        found.append(_finding("error", str(error)))
    finally:
        request.forget()
    return found


def _finding(level, text):
    text = spoken(text.strip())
    return {"level": level, "text": text[len(level) + 2 :] if text.startswith(f"{level}: ") else text}


def _follow(wait, interrupt, history, shown, verbose):
    """Waits for the end of a run."""
    is_asked, is_done = False, False
    while not is_done:
        try:
            messages, rows, position, is_done = wait(_LOOK)
            _tell(messages, verbose)
            for at, metrics in rows:
                history.add(dict(zip(_POSITION, at)), metrics)
            if position is not None:
                shown.update(dict(zip(_POSITION, position)), bool(rows))
        except KeyboardInterrupt:
            if is_asked:
                raise
            is_asked = True
            interrupt()
            print("the run saves a checkpoint and ends; interrupt again to go on without waiting", file=sys.stderr)


def _tell(messages, verbose):
    for level, source, text in messages:
        text = spoken(text)
        if level == "warning":
            said = text if source == "sconce" else f"{source}: {text}"
            warnings.warn(said, SconceWarning, stacklevel=4)
        elif level == "info" and (verbose or source != "sconce"):
            print(text if source == "sconce" else f"{source}: {text}")


def _result(result, history):
    try:
        ended = result()
    except _errors.Error as error:
        # Anew, without the library's frames and with arguments for options.
        raise type(error)(spoken(str(error))) from None
    run = Run(ended[0], history, ended)
    failure, problems = ended[4], [problem(text) for text in ended[5]]
    kind, hook = _errors.TrainingError, None
    if failure is not None:
        text, code, hook = failure
        kind = getattr(_errors, _BY_CODE.get(code, "TrainingError"))
        problems.insert(0, problem(text))
    if not problems:
        return run
    raised = kind("\n".join(problems))
    raised.run, raised.hook = run, hook
    raise raised
