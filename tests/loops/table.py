"""Which hooks work in which loops, and why not: the table of docs/any-loop-hooks.md, from what plugins say of their hooks, by the rule that
the host itself refuses hooks by.

    python3 tests/loops/table.py PLUGINS SCONCE            prints the page
    python3 tests/loops/table.py PLUGINS SCONCE --check    compares it with the one that is checked in
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/any-loop-hooks.md"
sys.path.insert(0, str(ROOT / "plugins/python"))
from sconce.loops import frameworks  # noqa: E402
from sconce.loops.events import Served  # noqa: E402
from sconce.training.installation import VARIABLE, extension  # noqa: E402

# What serves saves, loads and validations, in a loop whose owner writes that.
SERVICES = ("save", "load", "delete", "copy", "validate")
CANDLE = frameworks.Framework("candle", not_followed=["set_momentum"], has_modules=False)
OF_OWNERS = ("candle", "PyTorch")
HEAD = """# Which hooks work in other loops

From what the hooks say of themselves with any configuration: a configuration that asks for less may run where its hook is refused here, and
`sconce check` is not needed to find out: a hook that can't run is refused at the start, with these reasons. candle and PyTorch are shown as loops
that serve saves, loads and validations, MMEngine with a loop by epochs, Keras with the backend torch but for its last column ([hooks in other loops](any-loop.md)); schedules of a
framework's own keep hooks that set rates out, an optimizer without a momentum those that set it.

Written by `tests/loops/table.py`; `tests/loops/every_hook.py` starts each hook in each loop, and compares.

"""


def hooks(plugins, sconce):
    """The hooks of all plugins."""
    found = {}
    for file in sorted(pathlib.Path(plugins).glob("libsconce_plugin_*.so")):
        if file.stem == "libsconce_plugin_macros":
            continue
        said = subprocess.run([sconce, "inspect", "--json", str(file)], capture_output=True, text=True, check=True).stdout
        read = json.loads(said)
        for hook in (read[0] if isinstance(read, list) else read)["hooks"]:
            found[hook["name"]] = hook
    return [found[name] for name in sorted(found)]


def description(loop):
    """A loop as its binding describes it to the host."""
    modules = [{"name": "fc", "kind": "linear"}] if loop.has_modules else []
    return json.dumps({"plan": {"modules": modules}, "absent": loop.absent, "shows": loop.shows, "follows": loop.follows})


def reasons(hook, loop):
    """Names of what a hook needs and a loop lacks, with any configuration."""
    services = SERVICES if loop.name in OF_OWNERS else ()
    for request in loop.serves:
        services += ({"save_checkpoint": "save"}.get(request, request),)
    points = [point["name"] for point in hook["points"]]
    listed = [hook.get(key) or [] for key in ("asks", "reads", "optional")]
    served = Served(dict.fromkeys(services, print), loop.reasons)
    return [f"`{name}`" for name, _ in extension().misfits(description(loop), points, *listed, served)]


def page(plugins, sconce):
    loops = [CANDLE, *frameworks.ALL]
    lines = [HEAD + "| hook | Sconce | " + " | ".join(loop.name for loop in loops) + " |", "|---" * (len(loops) + 2) + "|"]
    for hook in hooks(plugins, sconce):
        cells = []
        for loop in loops:
            why = list(dict.fromkeys(reasons(hook, loop)))
            unknown = hook.get("asks") is None
            cells.append(", ".join(why) if why else "as its own file says" if unknown else "yes")
        own = "models of text" if "generate" in (hook.get("asks") or []) else "yes"
        own = "views of samples" if "given_loss" in (hook.get("reads") or []) else own
        lines.append(f"| `{hook['name']}` | {own} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    plugins, sconce = sys.argv[1:3]
    os.environ.setdefault(VARIABLE, str(pathlib.Path(plugins) / "libsconce.so"))
    made = page(plugins, sconce)
    if "--check" not in sys.argv:
        print(made, end="")
    elif made != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE} is not what the plugins say: write it by tests/loops/table.py")


main()
