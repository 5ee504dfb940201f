"""Puts the sources of the crates that a plugin is built on into a directory that cargo takes them from without a network.

usage: vendor.py TARGET DIRECTORY    (of a Rust compiler, as x86_64-unknown-linux-gnu)

Like `cargo vendor` for examples/outside-plugin, with its test kit, but for one target: crates that only other targets
need, as Windows's import libraries (a hundred megabytes), are empty, and tests and benchmarks are left out. Nothing is
fetched but what a build for the target fetches.
"""
import json, pathlib, re, shutil, subprocess, sys

MANIFEST = "examples/outside-plugin/Cargo.toml"
LEFT_OUT = {"tests", "benches", "examples", "ci", ".github", ".cargo-ok", ".cargo_vcs_info.json", "Cargo.toml.orig", "Cargo.lock"}


def locked():
    """The packages of the lock file that come from the registry: name, version, checksum."""
    text = pathlib.Path(MANIFEST).with_name("Cargo.lock").read_text()
    pattern = r'name = "(.+)"\nversion = "(.+)"\nsource = "registry.+"\nchecksum = "(.+)"'
    return re.findall(pattern, text)


def asked_features(packages, name):
    """The features of a package that others ask for."""
    dependencies = (dependency for package in packages for dependency in package["dependencies"])
    return sorted({feature for dependency in dependencies if dependency["name"] == name for feature in dependency["features"]})


def write_empty(place, name, version, features):
    """A package without content, under its name."""
    lines = ["[package]", f'name = "{name}"', f'version = "{version}"', "", "[lib]", 'path = "lib.rs"', "", "[features]"]
    lines += [f'"{feature}" = []' for feature in features]
    (place / "Cargo.toml").write_text("\n".join(lines) + "\n")
    (place / "lib.rs").write_text("// Nothing of this crate is built for this target.\n")


def main():
    target, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", target, "--manifest-path", MANIFEST]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["packages"]
    sources = {(package["name"], package["version"]): package for package in packages if package["source"]}
    directory.mkdir(parents=True)
    for name, version, checksum in locked():
        place = directory / f"{name}-{version}"
        package = sources.pop((name, version), None)
        if package:
            source = pathlib.Path(package["manifest_path"]).parent
            shutil.copytree(source, place, ignore=lambda at, names: LEFT_OUT & set(names) if pathlib.Path(at) == source else set())
        else:
            place.mkdir()
            write_empty(place, name, version, asked_features(packages, name))
        (place / ".cargo-checksum.json").write_text(json.dumps({"files": {}, "package": checksum}) + "\n")
    if sources:
        sys.exit(f"not in the lock file: {', '.join(name for name, _ in sources)}")


main()
