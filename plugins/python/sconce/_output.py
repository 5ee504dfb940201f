"""What hooks print, as messages of the hook."""

import io
import sys
import warnings


class _Lines(io.RawIOBase):
    """A file whose lines become messages."""

    def __init__(self, log, level):
        super().__init__()
        self._log = log
        self._level = level
        self._rest = b""

    def writable(self):
        return True

    def write(self, data):
        *lines, self._rest = (self._rest + bytes(data)).split(b"\n")
        for line in lines:
            self._emit(line)
        # A line that never ends would grow for ever.
        if len(self._rest) > 8192:
            self.finish()
        return len(data)

    def finish(self):
        """Writes the last line, which has no end."""
        line, self._rest = self._rest, b""
        if line:
            self._emit(line)

    def _emit(self, line):
        # Progress bars return to the beginning of the line: what they showed last counts.
        text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
        if text.strip():
            self._log(self._level, text)


_streams = []


def _stream(log, level):
    raw = _Lines(log, level)
    _streams.append(raw)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


def redirect(log):
    """Makes what is printed information, and warnings warnings; there is no standard input.

    Standard error too: most of what libraries write there is progress and news.
    """

    def show(message, category, filename, lineno, file=None, line=None):
        if file is None:
            log(1, f"{category.__name__}: {message} ({filename}:{lineno})")
        else:
            file.write(warnings.formatwarning(message, category, filename, lineno, line))

    sys.stdin = None
    sys.stdout = _stream(log, 2)
    sys.stderr = _stream(log, 2)
    warnings.showwarning = show


def flush():
    """Writes out what has no end of line yet."""
    for raw in _streams:
        raw.finish()
