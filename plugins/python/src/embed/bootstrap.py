# Creates the package `sconce` from the sources in this library. The host's variables are `sources`, pairs of names and
# texts in the order of execution, and the types `Task` and `Tensor`.
import importlib
import sys
import types

native = types.ModuleType("sconce._native")
native.Task = Task  # noqa: F821
native.Tensor = Tensor  # noqa: F821
if "sconce._sconce" in sys.modules:
    # Python's own process, in which the package trains: hooks are subclasses of the class that it has, and what it could not know of
    # the run's types before is defined again.
    package = sys.modules["sconce"]
    sys.modules["sconce._native"] = native
    for name in ("_tensor", "_task"):
        importlib.reload(sys.modules[f"sconce.{name}"])
    for name, module in (("Tensor", "_tensor"), ("Task", "_task"), ("Module", "_task")):
        setattr(package, name, getattr(sys.modules[f"sconce.{module}"], name))
    package._hook._Native, package._hook._NATIVE_TASK = native.Task, native.Task()
    create = importlib.import_module("sconce._create")
else:
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
