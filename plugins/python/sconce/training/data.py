"""Arrays and frames in memory, as what the manifest's `data` names."""

import csv
import io
import math
import warnings

from .._errors import DataError, ManifestError, SconceWarning

#: Where data in memory are, for the manifest: paths that name no files.
ROOT = "/memory"
#: Bytes above which a copy of the data is announced.
_LARGE = 100_000_000
#: Kinds of element that the library reads as they are, by NumPy's letters.
_KINDS = "fiub"
#: The keys of the manifest's `data` that name files, by kind.
_TABLE = ("file", "val", "test")


def provide(section, data):
    """The manifest's `data` section with paths in the places of data, and what is at these paths."""
    section = dict(section or {})
    if isinstance(data, tuple):
        if len(data) != 2:
            raise DataError(f"a pair of inputs and targets is expected, found {len(data)} values")
        data = {"inputs": data[0], "targets": data[1]}
    kind = section.get("kind")
    if kind is None:
        kind = "npy" if isinstance(data, dict) and "inputs" in data else "csv"
        section["kind"] = kind
    if kind not in ("csv", "npy"):
        raise ManifestError(
            f"`data` can't be given for the kind `{kind}`: it takes arrays for `npy`, and tables for `csv`\n"
            "hint: remove `data=`, or the manifest's `data`"
        )
    if kind == "csv" and not _is_of_tables(data):
        data = {"file": data}
    provided = []
    convert = _table if kind == "csv" else _array
    section = _merged(section, data, ROOT, convert, provided)
    return section, provided


def _is_of_tables(data):
    """Whether a dictionary names tables by the manifest's keys, and not columns."""
    return isinstance(data, dict) and set(data) <= set(_TABLE) and any(_is_frame(one) or isinstance(one, dict) for one in data.values())


def _merged(section, data, path, convert, provided):
    merged = dict(section)
    for key, value in data.items():
        place = f"{path}/{key}"
        is_group = isinstance(value, dict) and key in ("val", "test")
        if convert is _table and key in ("val", "test") and not (is_group and set(value) == {"file"}):
            value, is_group = {"file": value}, True
        if isinstance(value, tuple) and key in ("val", "test") and len(value) == 2:
            value, is_group = {"inputs": value[0], "targets": value[1]}, True
        if is_group:
            known = section.get(key)
            merged[key] = _merged(known if isinstance(known, dict) else {}, value, place, convert, provided)
            continue
        provided.append(convert(place, value))
        merged[key] = place
    return merged


def samples(value):
    """Samples to predict: the path that stands for them, and what is at it."""
    path = f"{ROOT}/predict"
    return _table(path, value) if isinstance(value, dict) or _is_frame(value) else _array(path, value)


def _array(path, value):
    """An array: its path, the object that owns it, and its element type, shape, address and size in bytes."""
    owner, interface = _interface(path, value)
    typestr, shape = interface["typestr"], tuple(interface["shape"])
    if typestr[1] not in _KINDS:
        raise DataError(f"`{path[len(ROOT) + 1:]}` has elements of the type `{typestr}`: arrays of numbers are expected")
    size = math.prod(shape) * int(typestr[2:])
    if not _is_contiguous(interface, shape, int(typestr[2:])):
        owner = _copied(path, owner, size)
        interface = owner.__array_interface__
        typestr = interface["typestr"]
    return path, owner, (typestr, list(shape), interface["data"][0], size)


def _interface(path, value):
    """The object whose memory is described, and the description."""
    if hasattr(value, "detach") and hasattr(value, "data_ptr"):
        value = value.detach()
        if value.device.type != "cpu":
            value = value.cpu()
        try:
            value = value.numpy()
        except TypeError:
            # NumPy lacks bfloat16, of which every value is one of float32.
            value = value.float().numpy()
    interface = getattr(value, "__array_interface__", None)
    if interface is not None and interface.get("data") is not None:
        return value, interface
    import_error = (
        f"`{path[len(ROOT) + 1:]}` is {type(value).__name__}: an array is expected, or NumPy to make one of it\nhint: pip install numpy"
    )
    try:
        import numpy
    except ImportError:
        raise DataError(import_error) from None
    array = numpy.asarray(value)
    return array, array.__array_interface__


def _is_contiguous(interface, shape, size):
    strides = interface.get("strides")
    if strides is None:
        return True
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length > 1 and stride != size:
            return False
        size *= length
    return True


def _copied(path, owner, size):
    import numpy

    _announce(path, size, "it is not in row-major order")
    return numpy.ascontiguousarray(owner)


def _announce(path, size, why):
    if size > _LARGE:
        text = f"`{path[len(ROOT) + 1:]}` is copied ({size / 1e6:.0f} MB): {why}"
        warnings.warn(text, SconceWarning, stacklevel=2)


def _is_frame(value):
    """Whether it is a table of pandas or polars, or one that Arrow's interface hands over."""
    is_written = hasattr(value, "columns") and (hasattr(value, "to_csv") or hasattr(value, "write_csv"))
    return is_written or hasattr(value, "__arrow_c_stream__")


def _table(path, value):
    """A table as the text of a CSV file, which is what its reader defines types and categories by."""
    if hasattr(value, "write_csv"):
        text = value.write_csv()
    elif hasattr(value, "to_csv"):
        text = value.to_csv(index=False)
    elif isinstance(value, dict):
        text = _csv(path, value)
    elif hasattr(value, "__arrow_c_stream__"):
        text = _by_arrow(path, value)
    else:
        raise DataError(
            f"`{path[len(ROOT) + 1:]}` is {type(value).__name__}: a table is expected, such as a DataFrame or a dictionary of columns"
        )
    content = text.encode()
    _announce(path, len(content), "a table is read as text")
    return path, content, None


def _by_arrow(path, value):
    """The text of a table that Arrow's interface hands over."""
    try:
        import polars
    except ImportError:
        kind = type(value).__name__
        raise DataError(
            f"`{path[len(ROOT) + 1:]}` is {kind}, which polars reads, and that is not installed\nhint: pip install polars"
        ) from None
    return polars.DataFrame(value).write_csv()


def _csv(path, columns):
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns of `{path[len(ROOT) + 1:]}` have different lengths: {lengths}")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    lists = [column.tolist() if hasattr(column, "tolist") else column for column in columns.values()]
    writer.writerows([_cell(value) for value in row] for row in zip(*lists))
    return out.getvalue()


def _cell(value):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return repr(value) if isinstance(value, float) else value
