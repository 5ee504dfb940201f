"""Options of the command line, in messages, as arguments of functions."""

import re

_ARGUMENTS = {
    "--overwrite": "overwrite=True",
    "--resume": "resume=True",
    "--allow-changes": "allow_changes=True",
    "--output": "output=…",
    "--plugins": "plugins=[…]",
}
_OPTION = re.compile("|".join(rf"{option}\b" for option in _ARGUMENTS))


def spoken(text):
    """A message for who calls functions."""
    return _OPTION.sub(lambda found: _ARGUMENTS[found.group()], text)
