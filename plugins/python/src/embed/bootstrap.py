# Creates the package `sconce` from the sources in this library. The host's variables are `sources`, pairs of names and
# texts in the order of execution, and the types `Task` and `Tensor`.
import sys
import types

native = types.ModuleType("sconce._native")
native.Task = Task  # noqa: F821
native.Tensor = Tensor  # noqa: F821
modules = {"sconce._native": native}
for name, source in sources:  # noqa: F821
    modules[name] = types.ModuleType(name)
    modules[name].__package__ = "sconce"
modules["sconce"].__path__ = []
sys.modules.update(modules)
for name, source in sources:  # noqa: F821
    exec(compile(source, f"<{name}>", "exec"), modules[name].__dict__)
    if name != "sconce":
        setattr(modules["sconce"], name.partition(".")[2], modules[name])
create = modules["sconce._create"]
