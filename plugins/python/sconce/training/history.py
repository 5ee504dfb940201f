"""What was measured, epoch by epoch."""

from __future__ import annotations

from typing import Any, Dict, List


class History(List[Dict[str, Any]]):
    """A row for each epoch: a dictionary with `epoch`, `iteration`, `seconds`, `learning_rate` and the metrics of the phases,
    such as `train/loss` and `val/accuracy`."""

    def add(self, position, metrics):
        """Adds the results of a pass."""
        phase = position["phase"]
        if not self or self[-1]["epoch"] != position["epoch"] or f"{phase}/loss" in self[-1]:
            self.append({"epoch": position["epoch"]})
        row = self[-1]
        row.update(iteration=position["iteration"], seconds=position["elapsed"], learning_rate=position["learning_rate"])
        row.update((f"{phase}/{name}", value) for name, value in metrics)

    def columns(self) -> List[str]:
        """The names of all columns, in the order of their appearance."""
        return list(dict.fromkeys(name for row in self for name in row))

    def _lists(self):
        return {name: [row.get(name) for row in self] for name in self.columns()}

    def to_pandas(self) -> Any:
        """A pandas DataFrame."""
        import pandas

        return pandas.DataFrame(self._lists())

    def to_polars(self) -> Any:
        """A polars DataFrame."""
        import polars

        return polars.DataFrame(self._lists())

    def _repr_html_(self):
        from .table import html

        return html(self.columns(), self)
