"""Which hooks work in which loops, and why not: the table of docs/any-loop-hooks.md, from what plugins say of their hooks.

    python3 tests/loops/table.py PLUGINS SCONCE            prints the page
    python3 tests/loops/table.py PLUGINS SCONCE --check    compares it with the one that is checked in
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/any-loop-hooks.md"
sys.path.insert(0, str(ROOT / "plugins/python"))
from sconce.loops import frameworks  # noqa: E402

# Where it is written is the loop's affair.
SAME = {"save_in_background": "save_checkpoint"}
MODULES = ("module_forward", "module_backward")
CANDLE = frameworks.Framework("candle", serves=["save_checkpoint", "validate", "load_parameters", "delete_checkpoint", "copy_checkpoint"])
HEAD = """# Which hooks work in other loops

From what the hooks say of themselves with any configuration: a configuration that asks for less may run where its hook is refused here, and
`sconce check` is not needed to find out: a hook that can't run is refused at the start, with these reasons. candle and PyTorch are shown as loops
that serve saves, loads and validations ([hooks in other loops](any-loop.md)); schedules of a framework's own keep hooks that set rates out.

Written by `tests/loops/table.py`.

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


def reasons(hook, loop):
    """Why a hook is refused in a loop with any configuration."""
    optional = set(hook.get("optional") or ())
    points = {point["name"] for point in hook["points"]}
    for point in sorted((points & {*loop.absent, *MODULES}) - optional):
        yield f"`{point}`"
    for request in hook.get("asks") or ():
        request = SAME.get(request, request)
        if request not in loop.follows and request not in loop.serves:
            yield f"`{request}`"
    for what in hook.get("reads") or ():
        if what not in optional and what not in loop.shows and not (what == "batch" and "inputs" in loop.shows and "outputs" in loop.shows):
            yield f"`{what}`"


def page(plugins, sconce):
    loops = [CANDLE, *frameworks.ALL]
    pytorch = loops[1]
    pytorch.serves = CANDLE.serves
    lines = [HEAD + "| hook | Sconce | " + " | ".join(loop.name for loop in loops) + " |", "|---" * (len(loops) + 2) + "|"]
    for hook in hooks(plugins, sconce):
        cells = []
        for loop in loops:
            why = list(dict.fromkeys(reasons(hook, loop)))
            unknown = hook.get("asks") is None
            cells.append(", ".join(why) if why else "as its own file says" if unknown else "yes")
        lines.append(f"| `{hook['name']}` | yes | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    made = page(*sys.argv[1:3])
    if "--check" not in sys.argv:
        print(made, end="")
    elif made != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE} is not what the plugins say: write it by tests/loops/table.py")


main()
