"""Rows as text and as HTML."""

from __future__ import annotations

from html import escape
from typing import Any, Dict, List


def shown(value):
    """A cell."""
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def html(columns, rows):
    """A table for notebooks."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(shown(row.get(name)))}</td>" for name in columns) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def text(columns, rows):
    """A table for terminals."""
    cells = [list(columns), *([shown(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)


class Table(List[Dict[str, Any]]):
    """Rows, each a dictionary, shown as a table."""

    def columns(self) -> List[str]:
        """The names of all columns, in the order of their appearance."""
        return list(dict.fromkeys(name for row in self for name in row))

    def __repr__(self):
        return text(self.columns(), self) if self else "(no rows)"

    def _repr_html_(self):
        return html(self.columns(), self)

    def to_pandas(self) -> Any:
        """A pandas DataFrame."""
        import pandas

        return pandas.DataFrame([dict(row) for row in self], columns=self.columns())

    def to_polars(self) -> Any:
        """A polars DataFrame."""
        import polars

        return polars.DataFrame([{name: row.get(name) for name in self.columns()} for row in self])
