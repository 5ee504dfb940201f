"""Runs side by side."""

from __future__ import annotations

import os
import pathlib
from typing import Union

from .run import Model, metrics_of, read_json
from .table import Table


def compare(*runs: Union[Model, str, os.PathLike[str]]) -> Table:
    """A table with a row for each run: how it ended, its metrics, and the values in which the manifests differ. Runs are what `train`
    and `load` return, or directories."""
    places = [run.directory if isinstance(run, Model) else pathlib.Path(run).resolve() for run in runs]
    values = [dict(_flat("", read_json(place / "manifest.json"))) for place in places]
    names = dict.fromkeys(name for one in values for name in one)
    differing = [name for name in names if name not in ("name", "output") and len({repr(one.get(name)) for one in values}) > 1]
    table = Table()
    for place, own in zip(places, values):
        record = read_json(place / "run.json")
        row = {"run": place.name, "outcome": record.get("outcome"), "epochs": record.get("epochs"), "seconds": record.get("seconds")}
        row.update(metrics_of(record))
        row.update((name, own.get(name)) for name in differing)
        table.append(row)
    return table


def _flat(path, value):
    """The single values of a manifest, by their paths."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(f"{path}.{key}" if path else key, one)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for index, one in enumerate(value):
            yield from _flat(f"{path}[{index}]", one)
    else:
        yield path, value
