"""The crates that are linked into the binary and the standard plugins: names, versions, licences and their texts.

usage: third-party.py TARGET    (of a Rust compiler, as x86_64-unknown-linux-gnu)

Reads `cargo metadata` and the sources that cargo has unpacked. A crate without a licence expression is an error.
"""
import json, pathlib, subprocess, sys


def linked(metadata):
    """The packages that the normal dependencies of the default members and of the library lead to, procedural macros and what only they need left out."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    is_macro = lambda package: any("proc-macro" in target["kind"] for target in package["targets"])
    library = [member for member in metadata["workspace_members"] if packages[member]["name"] == "libsconce"]
    seen, waiting = set(), [*metadata["workspace_default_members"], *library]
    while waiting:
        one = waiting.pop()
        if one in seen or is_macro(packages[one]):
            continue
        seen.add(one)
        for dependency in nodes[one]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return sorted((packages[one] for one in seen), key=lambda package: (package["name"], package["version"]))


def texts(package):
    """The licence files of a package, by name."""
    directory = pathlib.Path(package["manifest_path"]).parent
    begins = ("licen", "copying", "notice", "copyright", "unlicense")
    files = [file for file in sorted(directory.iterdir()) if file.is_file() and file.name.lower().startswith(begins)]
    return [(file.name, file.read_text(errors="replace").strip()) for file in files]


def main():
    target = sys.argv[1]
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    strangers = [package for package in linked(metadata) if package["source"]]
    if not strangers:
        sys.exit("no crate was found: is the output of `cargo metadata` another one?")
    missing = [package["name"] for package in strangers if not (package["license"] or package["license_file"])]
    if missing:
        sys.exit(f"no licence is named by: {', '.join(missing)}")
    print(f"Sconce and its standard plugins are linked, for {target}, with these crates of others.\n")
    width = max(len(f"{package['name']} {package['version']}") for package in strangers)
    by_text = {}
    for package in strangers:
        name = f"{package['name']} {package['version']}"
        print(f"{name:{width}}  {package['license'] or package['license_file']}")
        for _, text in texts(package):
            by_text.setdefault(text, []).append(name)
    for text, names in by_text.items():
        print(f"\n{'=' * 80}\nOf {', '.join(names)}:\n\n{text}")


main()
