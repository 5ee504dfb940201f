"""Hook states as bytes: JSON, and the elements of arrays as they are.

Nothing is pickled: a checkpoint from a stranger can't run code. The bytes are a line that names the format, the length of
the JSON as eight bytes (little-endian), the JSON, and the arrays and bytes one after another. In the JSON,
`{"$array": N}` and `{"$bytes": N}` stand for part N.
"""

import json
import math
import re

_MAGIC = b"sconce-python-state 1\n"
#: Booleans, integers, floats and complex numbers, little-endian; no objects.
_DTYPE = re.compile(r"\|b1|[|<]i1|[|<]u1|<[iu][248]|<f[248]|<c(8|16)")
_MARKS = ("$array", "$bytes")


def encode(state):
    """The bytes of a state."""
    parts, blobs = [], []
    value = _plain("state", state, parts, blobs)
    head = json.dumps({"value": value, "parts": parts}, separators=(",", ":")).encode()
    return b"".join([_MAGIC, len(head).to_bytes(8, "little"), head, *blobs])


def _plain(path, value, parts, blobs):
    if value is None or isinstance(value, (bool, int, float, str)):
        return _scalar(value)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key in _MARKS:
                raise TypeError(f"{path} has the key {key!r}: keys must be texts other than {' and '.join(_MARKS)}")
        return {key: _plain(f"{path}[{key!r}]", one, parts, blobs) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(f"{path}[{i}]", one, parts, blobs) for i, one in enumerate(value)]
    if isinstance(value, (bytes, bytearray)):
        return _part("$bytes", {"bytes": len(value)}, bytes(value), parts, blobs)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return _array(path, value, parts, blobs)
    raise TypeError(
        f"{path} is of type {type(value).__qualname__}, which a checkpoint can't store: "
        "use texts, numbers, lists, dictionaries, bytes and arrays"
    )


def _scalar(value):
    """Subclasses such as enumerations and NumPy's `float64` are stored as what they derive from."""
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _array(path, value, parts, blobs):
    import numpy

    array = numpy.asarray(value)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if not _DTYPE.fullmatch(array.dtype.str):
        raise TypeError(f"{path} is an array of {array.dtype}, which a checkpoint can't store: use numbers")
    facts = {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": array.nbytes}
    return _part("$array", facts, array.tobytes(), parts, blobs)


def _part(mark, facts, blob, parts, blobs):
    parts.append(facts)
    blobs.append(blob)
    return {mark: len(parts) - 1}


def decode(data):
    """The state that `encode` wrote. The bytes may come from anywhere."""
    if not data.startswith(_MAGIC):
        raise ValueError("the state is not one of a hook in Python")
    start = len(_MAGIC) + 8
    length = int.from_bytes(data[len(_MAGIC) : start], "little")
    if len(data) < start or length > len(data) - start:
        raise ValueError("the state is truncated")
    try:
        head = json.loads(data[start : start + length])
        parts = _parts(head["parts"], data, start + length)
        return _restored(head["value"], parts)
    except (KeyError, TypeError, RecursionError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"the state is damaged: {error}") from None


def _parts(facts, data, offset):
    parts = []
    for one in facts:
        size = one["bytes"]
        if type(size) is not int or not 0 <= size <= len(data) - offset:
            raise ValueError("the state is truncated")
        parts.append((one, data[offset : offset + size]))
        offset += size
    if offset != len(data):
        raise ValueError("the state has bytes that belong to nothing")
    return parts


def _restored(value, parts):
    if isinstance(value, list):
        return [_restored(one, parts) for one in value]
    if not isinstance(value, dict):
        return value
    for mark in _MARKS:
        if mark in value:
            index = value[mark]
            if type(index) is not int or not 0 <= index < len(parts):
                raise ValueError(f"the state is damaged: there is no part {index!r}")
            facts, blob = parts[index]
            return bytes(blob) if mark == "$bytes" else _read_array(facts, blob)
    return {key: _restored(one, parts) for key, one in value.items()}


def _read_array(facts, blob):
    import numpy

    dtype, shape = facts["dtype"], facts["shape"]
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise ValueError(f"the state is damaged: arrays of {dtype!r} are not stored")
    is_shape = isinstance(shape, list) and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape)
    if not is_shape or math.prod(shape) * numpy.dtype(dtype).itemsize != len(blob):
        raise ValueError("the state is damaged: an array's shape does not fit its bytes")
    # A copy: the bytes are the host's, and the hook may write to its array.
    return numpy.frombuffer(blob, dtype).reshape(shape).copy()
