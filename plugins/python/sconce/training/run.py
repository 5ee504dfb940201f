"""A run that has ended, and predictions of its model."""

from __future__ import annotations

import array
import json
import os
import pathlib
import warnings
from typing import Any, Dict, List, Union

from .._errors import DataError, SconceWarning
from . import data as data_
from .history import History
from .installation import extension
from .words import spoken


def read_json(file):
    """A file of a run's directory; an empty dictionary if there is none."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


class Model:
    """What predicts, opened at the first prediction."""

    def __init__(self, directory):
        #: The directory that it is in, absolute.
        self.directory = pathlib.Path(directory).resolve()
        self._predict = None

    def predict(self, samples: Any) -> Prediction:
        """Predictions for samples: an array of inputs for a model of arrays, a table (a DataFrame, or a dictionary of columns) for
        one of tables, or the path of a file, or for images of a directory."""
        if self._predict is None:
            self._predict = extension().load(str(self.directory))
        if isinstance(samples, (str, os.PathLike)):
            path, provided = os.fspath(samples), []
        else:
            described = data_.samples(samples)
            path, provided = described[0], [described]
        values, shape, names, is_classes, notes = self._predict(path, provided)
        for note in notes:
            warnings.warn(note, SconceWarning, stacklevel=2)
        return Prediction(values, tuple(shape), names, is_classes)


class Run(Model):
    """A run and what came of it."""

    #: What was measured, epoch by epoch.
    history: History

    def __init__(self, directory, history, ended):
        super().__init__(directory)
        #: How it ended: `completed`, `stopped`, or `interrupted`; `failed` for the run of an exception.
        self.outcome = ended[1]
        #: Why it was stopped; empty otherwise.
        self.reason = ended[2]
        #: The last checkpoint, a path or None.
        self.last_checkpoint = None if ended[3] is None else pathlib.Path(ended[3])
        self.history = history

    @property
    def record(self) -> Dict[str, Any]:
        """What the run has noted of its end: `run.json` as a dictionary."""
        return read_json(self.directory / "run.json")

    @property
    def metrics(self) -> Dict[str, float]:
        """The metrics of the weights that were kept, by names such as `val/loss`."""
        return metrics_of(self.record)

    @property
    def manifest(self) -> Dict[str, Any]:
        """The manifest with all defaults, as a dictionary."""
        return read_json(self.directory / "manifest.json")

    def report(self) -> Report:
        """The page of the hook `report`, shown in a notebook."""
        return Report(self.directory)

    def __repr__(self):
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"<sconce.Run {self.outcome}: {metrics or 'no metrics'}; {self.directory}>"


def metrics_of(record):
    """The metrics of a run's record, by phase and name."""
    found = record.get("metrics") or {}
    return {f"{phase}/{name}": value for phase, values in found.items() for name, value in values.items()}


class Report:
    """The page of a run's hook `report`."""

    def __init__(self, directory):
        #: The file.
        self.file = pathlib.Path(directory) / "report.html"
        if not self.file.is_file():
            raise DataError(
                f"there is no `{self.file}`: the hook `report` writes it\nhint: train with `hooks=[\"report\"]`"
            )

    @property
    def html(self) -> str:
        """The page as text."""
        return self.file.read_text(encoding="utf-8")

    def _repr_html_(self):
        from html import escape

        return f'<iframe srcdoc="{escape(self.html)}" width="100%" height="640" style="border: 0"></iframe>'

    def __repr__(self):
        return f"<sconce report: {self.file}>"


class Prediction:
    """Predictions for samples. `numpy.asarray(prediction)` has the values: (samples, …, names)."""

    def __init__(self, values: bytes, shape: tuple, names: List[str], is_classes: bool):
        self._values = values
        #: Number of samples, and of what is predicted for each.
        self.shape = shape
        #: Names of the classes, or of the numbers.
        self.names = names
        #: Whether the values are probabilities of classes.
        self.is_classes = is_classes

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        import numpy

        values = numpy.frombuffer(self._values, dtype="float32").reshape(self.shape)
        return values.astype(dtype or "float32", copy=bool(copy) or copy is None)

    def tolist(self) -> List[Any]:
        """The values as nested lists."""
        flat = array.array("f")
        flat.frombytes(self._values)
        nested: List[Any] = flat.tolist()
        for size in reversed(self.shape[1:]):
            nested = [nested[at : at + size] for at in range(0, len(nested), size)]
        return nested

    @property
    def classes(self) -> List[Any]:
        """The most likely class of each sample, or of each of its positions, by name."""
        if not self.is_classes:
            raise DataError("the model predicts numbers, not classes: `.tolist()` or numpy.asarray has them")
        return _named(self.tolist(), self.names)

    def rows(self) -> List[Dict[str, Any]]:
        """A dictionary for each sample: `class` and `probability`, or the numbers by their names."""
        if len(self.shape) != 2:
            raise DataError("predictions for positions have no rows: use `.classes` or numpy.asarray")
        if not self.is_classes:
            return [dict(zip(self.names, row)) for row in self.tolist()]
        return [{"class": self.names[row.index(max(row))], "probability": max(row)} for row in self.tolist()]

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each sample."""
        import pandas

        return pandas.DataFrame(self.rows())

    def to_polars(self) -> Any:
        """A polars DataFrame with a row for each sample."""
        import polars

        return polars.DataFrame(self.rows())

    def __repr__(self):
        return f"<sconce.Prediction of {len(self)} samples: {', '.join(self.names[:8])}{'…' if len(self.names) > 8 else ''}>"


def _named(nested, names):
    if nested and isinstance(nested[0], list):
        return [_named(one, names) for one in nested]
    return names[nested.index(max(nested))] if nested else []


def load(directory: Union[str, os.PathLike[str]]) -> Run:
    """The run in a directory, or the model in one, for predictions."""
    directory = pathlib.Path(os.fspath(directory))
    if not directory.is_dir():
        raise DataError(f"there is no directory `{directory}`")
    record = read_json(directory / "run.json")
    last = record.get("last_checkpoint")
    run = Run(directory, History(), (None, record.get("outcome", ""), record.get("reason") or "", last))
    run._predict = extension().load(str(run.directory))
    return run


def problem(text):
    """A message without the words that are the command line's."""
    text = spoken(text.strip())
    return text[len("error: ") :] if text.startswith("error: ") else text
