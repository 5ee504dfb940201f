"""Files that are whole or not there."""

import os


def write_whole(path, content):
    """Writes a file under a name of its own first: whoever reads it after a power loss has all of it or nothing."""
    part = f"{os.fspath(path)}.part"
    with open(part, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
