"""Two builds of the host and its plugins do the same, to the bit: weights, and every file that a hook writes.

usage: same_bits.py OLD NEW [--apart] [HOOK ...]

OLD and NEW are directories with `sconce` and the standard plugins, as target/release. A manifest for each kind of model and for each
standard hook is run by OLD twice and by NEW once; files that differ between the two runs of OLD hold times and are left out. Configurations of
hooks are those of tests/hooks/resumed.rs. With --apart the hooks of NEW's run are in processes of their own; what records the manifest is
left out, too.
"""
import hashlib, json, pathlib, re, shutil, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = {"kind": "synthetic-digits", "train": 96, "val": 32, "test": 16}
MODELS = {
    "mlp": ({"kind": "mlp", "hidden": [32, 16], "activation": "gelu"}, DIGITS),
    "convnet": ({"kind": "convnet", "channels": [4, 8], "hidden": [16], "batch_norm": True}, DIGITS),
    "resnet": ({"kind": "resnet", "blocks": [1, 1], "width": 4}, DIGITS),
    "gpt": ({"kind": "gpt", "layers": 2, "heads": 2, "width": 16, "dropout": 0.1}, {"kind": "grammar", "train": 96, "val": 32}),
    "gpt-rotary": ({"kind": "gpt", "layers": 1, "heads": 2, "width": 16, "positions": "rotary"}, {"kind": "grammar", "train": 96, "val": 32}),
    "sequential": (
        {"kind": "sequential", "layers": [{"kind": "linear", "outputs": 16}, {"kind": "batch-norm"}, {"kind": "silu"}, {"kind": "dropout", "share": 0.2}, {"kind": "linear"}]},
        {"kind": "two-moons", "train": 96, "val": 32, "test": 16},
    ),
}
# They have the manifest in them, or a hash of a file that has.
RECORDS = {"manifest.json", "run.json", "index.json", "state.json", "hooks.json"}
# They reach for a server, or need what these manifests don't have.
LEFT_OUT = {"mlflow", "webhook", "save-file"}


def configurations():
    """Pairs of a hook and its configuration."""
    text = (ROOT / "tests/hooks/resumed.rs").read_text()
    found = re.findall(r'\(\s*"([a-z0-9-]+)",\s*json!\((\{.*?\})\),?\s*\),?\n', text, re.S)
    return [(hook, json.loads(re.sub(r",(\s*[}\]])", r"\1", config))) for hook, config in found]


def run(build, manifest, place):
    """The hashes of all files of a run, by name."""
    # Their place is a part of the manifest that is written, too.
    (place / "plugins").mkdir()
    for library in build.glob("libsconce_plugin_*.so"):
        shutil.copy(library, place / "plugins")
    manifest = {**manifest, "output": "out", "plugins": ["plugins"]}
    (place / "run.json").write_text(json.dumps(manifest))
    done = subprocess.run([str(build / "sconce"), "run", "run.json"], cwd=place, capture_output=True, text=True)
    hashes = {"exit code": str(done.returncode)}
    for path in sorted((place / "out").rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            if path.name == "hooks.json":
                # The fingerprints of the plugins, which are of two builds.
                content = re.sub(rb"[0-9a-f]{64}", b"", content)
            hashes[name_of(path, place / "out")] = hashlib.sha256(content).hexdigest()
    return hashes, done.stderr


def name_of(path, out):
    """A file's name in a run: a kept checkpoint is named after a hash of what also holds times; here after its parameters alone."""
    name = path.relative_to(out)
    if ".objects" in name.parts:
        parameters = (path.parent / "parameters.safetensors").read_bytes()
        return f".objects/{hashlib.sha256(parameters).hexdigest()[:8]}/{path.name}"
    return str(name)


def apart(manifest):
    """The manifest with its hooks in processes of their own."""
    hooks = [{**({"hook": hook} if isinstance(hook, str) else hook), "isolation": "process"} for hook in manifest.get("hooks", [])]
    return {**manifest, "hooks": hooks}


def differences(old, new, manifest, is_apart):
    runs = []
    with tempfile.TemporaryDirectory() as directory:
        # The same place each time: its path is in the manifest.
        for number, build in enumerate((old, old, new)):
            place = pathlib.Path(directory) / "place"
            place.mkdir()
            runs.append(run(build, apart(manifest) if is_apart and number == 2 else manifest, place))
            subprocess.run(["rm", "-rf", str(place)], check=True)
    (first, _), (second, _), (third, words) = runs
    names = set(first) | set(third)
    stable = {name for name in names if first.get(name) == second.get(name) and not (is_apart and name.split("/")[-1] in RECORDS)}
    wrong = sorted(name for name in stable if first.get(name) != third.get(name))
    return wrong, len(stable), first["exit code"], words


def main():
    old, new = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    is_apart = "--apart" in sys.argv[3:]
    wanted = [word for word in sys.argv[3:] if word != "--apart"]
    base = {"name": "same", "seed": 7, "train": {"epochs": 2, "batch_size": 16, "accumulate": 2}, "optimizer": {"kind": "adamw", "learning_rate": 0.01}}
    cases = [] if wanted else [(f"model {name}", {**base, "model": model, "data": data}) for name, (model, data) in MODELS.items()]
    model, data = MODELS["sequential"]
    for hook, config in configurations():
        if hook not in LEFT_OUT and (not wanted or hook in wanted):
            checkpoint = [] if hook == "checkpoint" else ["checkpoint"]
            cases.append((f"hook {hook} {json.dumps(config)}", {**base, "model": model, "data": data, "hooks": [{"hook": hook, "config": config}, *checkpoint]}))
    failed = 0
    for name, manifest in cases:
        wrong, count, code, words = differences(old, new, manifest, is_apart)
        print(f"{'DIFFERS' if wrong else 'same':8} {count:3} files, exit code {code}: {name}")
        if wrong:
            failed += 1
            print(f"         {', '.join(wrong)}\n{words}")
    print(f"{len(cases)} cases, {failed} differ")
    sys.exit(failed > 0)


main()
