"""The manifest of what users pass."""

import copy
import json
import os
import pathlib

from .._errors import ManifestError
from . import data as data_
from . import objects

#: Name of a manifest that is a dictionary, in messages.
_NAME = "manifest"


def as_path(value):
    """A path as text, or None."""
    return None if value is None else os.fspath(value)


class Request:
    """A manifest with what is not in it: its text if it is not a file, data in memory, and hooks that are objects."""

    def __init__(self, manifest, data, hooks):
        self.text, self.provided, self.forget = None, [], lambda: None
        is_file = isinstance(manifest, (str, os.PathLike))
        self.path = os.fspath(manifest) if is_file else _NAME
        if is_file and data is None and not hooks:
            return
        document = _read(self.path) if is_file else _copied(manifest)
        if not is_file:
            document.setdefault("name", "run")
        if data is not None:
            document["data"], self.provided = data_.provide(document.get("data"), data)
        found = document.get("hooks") or []
        if not isinstance(found, (list, tuple)):
            raise ManifestError(f"`hooks` in the manifest is a list, found {type(found).__name__}")
        entries, self.forget = objects.entries([*found, *hooks])
        if entries or "hooks" in document:
            document["hooks"] = entries
        self.text = _text(document)


def _read(path):
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(f"the manifest `{path}` can't be read: {error.strerror}") from None
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ManifestError(f"the manifest `{path}` is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise ManifestError(f"the manifest `{path}` is not a JSON object")
    return document


def _copied(manifest):
    if not hasattr(manifest, "keys"):
        raise ManifestError(f"a manifest is a dictionary or the path of a file, found {type(manifest).__name__}")
    return copy.copy(dict(manifest))


def _plain(value):
    """What JSON has no type for: paths, and NumPy's numbers."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise ManifestError(f"the manifest has a value of the type {type(value).__name__}: {value!r}")


def _text(document):
    return json.dumps(document, indent=2, default=_plain, ensure_ascii=False)
