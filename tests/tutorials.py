"""Follows the tutorials as their readers do: writes the files that they show, runs their commands in the pages' order in one directory,
and compares what is printed with what the pages say, whatever the numbers are. The models are tiny ones of the same families.

usage: tests/tutorials.py SCONCE PLUGINS [--python]    PLUGINS: directory of the plugins; --python: the blocks in Python too, which need
PyTorch, transformers, PEFT, Pillow and onnxruntime
"""
import json, os, random, re, shutil, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests" / "reference" / "tutorials"
PAGES = ["tutorial-classification", "tutorial-instructions", "tutorial-images", "tutorial-elsewhere"]
# Fetched by the reader; here the tiny ones are there.
FETCHES = ("hf ", "wget ", "pip ")


def rows(file, made):
    made = made * 3
    random.Random(3).shuffle(made)
    file.write_text("".join(json.dumps(row) + "\n" for row in made))


def prepared(place):
    """What a reader has: models and data."""
    shutil.copytree(MODELS / "bert", place / "bert-base-uncased")
    shutil.copytree(MODELS / "gpt2", place / "gpt2")
    shutil.copy(MODELS / "resnet18.pth", place / "resnet18.pth")
    judgements = {"wonderful": "good", "moving": "good", "clever": "good", "dull": "bad", "tiresome": "bad", "clumsy": "bad"}
    subjects = ["film", "plot", "acting", "music", "ending", "dialogue"]
    rows(place / "reviews.jsonl", [{"text": f"The {s} was {j}.", "label": label} for s in subjects for j, label in judgements.items()])
    capitals = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo"}
    talk = lambda country, city: [{"role": "user", "content": f"What is the capital of {country}?"}, {"role": "assistant", "content": f"{city}."}]
    rows(place / "instructions.jsonl", [{"messages": talk(*pair)} for pair in capitals.items()] * 4)
    dice = random.Random(1)
    for kind, colour in {"rose": (220, 40, 60), "tulip": (240, 200, 40)}.items():
        (place / "flowers" / kind).mkdir(parents=True)
        for index in range(1, 13):
            inside = lambda x, y: (x - 32) ** 2 + (y - 32) ** 2 < (20 + index) ** 2
            points = [colour if inside(x, y) else (30, 120, 40) for y in range(64) for x in range(64)]
            pixels = bytes(value - dice.randrange(20) for point in points for value in point)
            # The format is found in the content.
            (place / "flowers" / kind / f"{index}.jpg").write_bytes(b"P6 64 64 255\n" + pixels)


def blocks(text):
    """Each block of a page: its language, its lines, and the line before it."""
    lines, block, before = iter(text.splitlines()), None, ""
    for line in lines:
        if line.startswith("```"):
            block = []
            for inner in lines:
                if inner == "```":
                    break
                block.append(inner)
            yield line[3:], block, before
        elif line:
            before = line


def commands(block):
    """Each command of a block with the lines that it prints."""
    found = []
    for line in block:
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found[-1][0].count("'") % 2:
            # A text of several lines.
            found[-1] = (found[-1][0] + "\n" + line, [])
        else:
            found[-1][1].append(line)
    return found


def shape(line):
    """A line without its numbers, hashes and widths."""
    return " ".join(re.sub(r"\d[\d.,:e-]*", "#", line).split())


def run(place, arguments, what):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SCONCE_") and key != "LD_LIBRARY_PATH"}
    kept = {f"XDG_{kind}_HOME": str(place / "home") for kind in ("DATA", "CACHE", "STATE", "CONFIG")}
    small = 'model={"kind":"resnet","stem":"large","width":2}'
    # The width of a ResNet is that of the tiny file's.
    narrow = {"SCONCE_SET_MODEL": small} if "flowers.json" in what else {}
    path = f"{Path(SCONCE).parent}{os.pathsep}{environment['PATH']}"
    environment |= kept | narrow | {"PATH": path, "SCONCE_PLUGIN_PATH": PLUGINS, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(arguments, cwd=place, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{what}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def compare(what, expected, printed):
    found = [shape(line) for line in printed.splitlines()]
    for line in expected:
        if line.strip() not in ("", "…"):
            assert shape(line) in found, f"{what}: nothing like\n{line}\nin\n{printed}"


def follow(page, place):
    done = 0
    for language, block, before in blocks((ROOT / "docs" / f"{page}.md").read_text()):
        if language == "console":
            for command, expected in commands(block):
                if not command.startswith(FETCHES):
                    compare(f"{page}: {command}", expected, run(place, ["sh", "-ec", command], command))
                    done += 1
        elif language == "python" and "--python" in sys.argv:
            run(place, [sys.executable, "-c", "\n".join(block)], f"{page}: its Python")
            done += 1
        elif language == "json":
            # A sentence before it ends with the file's name.
            name = re.search(r"`([\w.-]+\.json)`:$", before)
            assert name, f"{page}: which file is the block after {before!r}?"
            (place / name[1]).write_text("\n".join(block) + "\n")
    assert done > 1, page
    print(f"ok: {page}, {done} steps", flush=True)


SCONCE, PLUGINS = (os.path.abspath(argument) for argument in sys.argv[1:3])
with tempfile.TemporaryDirectory() as directory:
    prepared(Path(directory))
    for page in PAGES:
        follow(page, Path(directory))
