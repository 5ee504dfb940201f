"""Reads a hook's configuration into its `Config`: a dataclass, or a JSON Schema."""

import dataclasses
import difflib
import re
import types
import typing
from pathlib import Path

from ._errors import ConfigError

_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


def read(kind, value):
    """The configuration `value` as the class `kind` wants it."""
    wanted = getattr(kind, "Config", None)
    if wanted is None:
        return value
    if isinstance(wanted, dict):
        return _by_schema("", wanted, value)
    if dataclasses.is_dataclass(wanted):
        return _dataclass("", wanted, value)
    raise TypeError(f"`{kind.__name__}.Config` must be a dataclass or a JSON Schema, found {wanted!r}")


def blamed(error):
    """The option that a message begins with, as in "`low`: it is above `high`", or none, and the rest of the message."""
    found = re.fullmatch(r"`([^`\s]+)`: (.+)", str(error), re.DOTALL)
    return found.groups() if found else ("", str(error))


def _below(path, key):
    return f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}" if path else key


def _name(value):
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    if value is None:
        return "null"
    return names.get(type(value), "a list" if isinstance(value, list) else "an object")


def _wrong(path, expected, value):
    shown = repr(value) if isinstance(value, (bool, int, float)) else _name(value)
    return ConfigError(path, f"expected {expected}, found {shown}")


def _unknown(path, key, known):
    near = difflib.get_close_matches(key, known, 1)
    hint = f"; did you mean `{near[0]}`?" if near else f"; there are: {', '.join(known) or 'no options'}"
    return ConfigError(_below(path, key), f"unknown option `{key}`{hint}")


def _dataclass(path, wanted, value):
    if not isinstance(value, dict):
        raise _wrong(path, "an object", value)
    fields = {field.name: field for field in dataclasses.fields(wanted) if field.init}
    hints = typing.get_type_hints(wanted)
    for key in value:
        if key not in fields:
            raise _unknown(path, key, list(fields))
    arguments = {}
    for name, field in fields.items():
        if name in value:
            arguments[name] = _typed(_below(path, name), hints[name], value[name])
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(path, f"`{name}` is missing")
    try:
        return wanted(**arguments)
    except (TypeError, ValueError) as error:  # Checks of `__post_init__`.
        option, message = blamed(error)
        # A `ValueError` is meant for the user: its own text says all.
        cause = None if isinstance(error, ValueError) else error
        raise ConfigError(_below(path, option) if option else path, message) from cause


def _typed(path, hint, value):
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return value
    if origin in _UNIONS:
        return _either(path, arguments, value)
    if origin is typing.Literal:
        if not any(value == one and type(value) is type(one) for one in arguments):
            raise ConfigError(path, f"must be one of {', '.join(map(repr, arguments))}, found {value!r}")
        return value
    if dataclasses.is_dataclass(hint):
        return _dataclass(path, hint, value)
    if origin in (list, tuple, set) or hint in (list, tuple, set):
        return _sequence(path, origin or hint, arguments, value)
    if origin is dict or hint is dict:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        inner = arguments[1] if len(arguments) == 2 else typing.Any
        return {key: _typed(_below(path, key), inner, one) for key, one in value.items()}
    return _plain(path, hint, value)


def _either(path, arguments, value):
    if value is None and type(None) in arguments:
        return None
    ways = [one for one in arguments if one is not type(None)]
    for way in ways[:-1]:
        try:
            return _typed(path, way, value)
        except ConfigError:
            pass
    return _typed(path, ways[-1], value)


def _sequence(path, kind, arguments, value):
    if not isinstance(value, list):
        raise _wrong(path, "a list", value)
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise ConfigError(path, f"expected {len(arguments)} values, found {len(value)}")
        return tuple(_typed(_below(path, i), way, one) for i, (way, one) in enumerate(zip(arguments, value)))
    inner = arguments[0] if arguments else typing.Any
    return kind(_typed(_below(path, i), inner, one) for i, one in enumerate(value))


def _plain(path, hint, value):
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint in (str, Path) and isinstance(value, str):
        return hint(value)
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", Path: "a path"}
    if hint not in names:
        raise TypeError(f"the type {hint!r} of `{path}` in `Config` is not supported")
    raise _wrong(path, names[hint], value)


_TYPES = {
    "object": (dict, "an object"),
    "array": (list, "a list"),
    "string": (str, "a text"),
    "boolean": (bool, "true or false"),
    "null": (type(None), "null"),
}

#: What of JSON Schema is checked, and what says nothing that could be checked.
_KEYWORDS = {
    "type", "enum", "const", "anyOf", "properties", "required", "additionalProperties", "items", "minItems", "maxItems",
    "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "default",
}  # fmt: skip
_NOTES = {"title", "description", "examples", "$schema", "$comment", "format"}


def _has_type(name, value):
    if name in ("integer", "number"):
        return (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and (name == "number" or value == int(value))
        )
    known = _TYPES.get(name)
    return known is not None and isinstance(value, known[0])


def _by_schema(path, schema, value):
    """The value, checked by the schema and with its defaults."""
    unsupported = set(schema) - _KEYWORDS - _NOTES
    if unsupported:
        raise TypeError(f"`{min(unsupported)}` in the schema of `Config` is not supported")
    types = schema.get("type")
    types = types if isinstance(types, list) else [types] if types else []
    if types and not any(_has_type(one, value) for one in types):
        names = {"integer": "a whole number", "number": "a number"}
        expected = " or ".join(_TYPES[one][1] if one in _TYPES else names.get(one, one) for one in types)
        raise _wrong(path, expected, value)
    if "enum" in schema and value not in schema["enum"]:
        raise ConfigError(path, f"must be one of {', '.join(map(repr, schema['enum']))}, found {value!r}")
    if "const" in schema and value != schema["const"]:
        raise ConfigError(path, f"must be {schema['const']!r}, found {value!r}")
    if "anyOf" in schema:
        value = _any_of(path, schema["anyOf"], value)
    if isinstance(value, dict):
        return _object(path, schema, value)
    _bounds(path, schema, value)
    if isinstance(value, list) and "items" in schema:
        return [_by_schema(_below(path, i), schema["items"], one) for i, one in enumerate(value)]
    return value


def _any_of(path, ways, value):
    for way in ways[:-1]:
        try:
            return _by_schema(path, way, value)
        except ConfigError:
            pass
    return _by_schema(path, ways[-1], value)


def _object(path, schema, value):
    properties = schema.get("properties", {})
    more = schema.get("additionalProperties", True)
    checked = {}
    for key, one in value.items():
        if key in properties:
            checked[key] = _by_schema(_below(path, key), properties[key], one)
        elif more is False:
            raise _unknown(path, key, list(properties))
        else:
            checked[key] = one if more is True else _by_schema(_below(path, key), more, one)
    for key, one in properties.items():
        if key not in checked and "default" in one:
            checked[key] = one["default"]
    for key in schema.get("required", ()):
        if key not in checked:
            raise ConfigError(path, f"`{key}` is missing")
    return checked


def _bounds(path, schema, value):
    size = len(value) if isinstance(value, (str, list)) else None
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    items = ("minItems", "maxItems") if isinstance(value, list) else ("minLength", "maxLength")
    limits = (
        ("minimum", number, lambda a, b: a >= b, "at least"),
        ("maximum", number, lambda a, b: a <= b, "at most"),
        ("exclusiveMinimum", number, lambda a, b: a > b, "above"),
        ("exclusiveMaximum", number, lambda a, b: a < b, "below"),
        (items[0], size, lambda a, b: a >= b, "at least of length"),
        (items[1], size, lambda a, b: a <= b, "at most of length"),
    )
    for key, measure, holds, words in limits:
        if key in schema and measure is not None and not holds(measure, schema[key]):
            raise ConfigError(path, f"must be {words} {schema[key]}, found {measure}")
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        raise ConfigError(path, f"must match {schema['pattern']!r}")
