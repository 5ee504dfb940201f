"""Where the files of this installation are: the program, and the library with all of its code."""

import importlib.machinery
import importlib.util
import os
import pathlib
import sys
import sysconfig
from importlib import metadata

from .._errors import InstallationError

#: Name of the distribution that has this package.
_DISTRIBUTION = "sconce-train"
_LIBRARY = "libsconce.so"
#: The library to take in place of the installed one, as of a checkout.
VARIABLE = "SCONCE_LIBRARY"


def _installed(name, directories):
    """A file of the distribution, as its list has it."""
    try:
        files = metadata.files(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None
    for file in files or ():
        if file.name == name and file.parent.name in directories:
            return pathlib.Path(file.locate()).resolve()
    return None


def program():
    """The program, as the installed files list it."""
    found = _installed("sconce", ("bin", "Scripts"))
    return str(found or pathlib.Path(sysconfig.get_path("scripts")) / "sconce")


def library():
    """The library: the one that the variable names, the installed one, or that of the checkout that this package is in."""
    named = os.environ.get(VARIABLE)
    if named:
        return pathlib.Path(named).resolve()
    found = _installed(_LIBRARY, ("sconce",))
    if found is not None:
        return found
    here = globals().get("__file__")
    built = pathlib.Path(here).resolve().parents[4] / "target/release" / _LIBRARY if here else None
    if built is not None and built.is_file():
        return built
    raise InstallationError(
        f"there is no `{_LIBRARY}`, which has the code that trains\n"
        "hint: install the wheel (`pip install sconce_train-….whl`), or in a checkout build it by "
        f"`cargo build --release -p libsconce`, or name it by the variable {VARIABLE}"
    )


def extension():
    """The extension module, from the library; loaded once."""
    name = "sconce._sconce"
    known = sys.modules.get(name)
    if known is not None:
        return known
    path = library()
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise InstallationError(f"`{path}` can't be opened: {error}") from None
    sys.modules[name] = module
    return module
