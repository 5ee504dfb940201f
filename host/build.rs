//! Finds the sources that the binary carries for the plugins that `sconce new-plugin` makes: `sconce-plugin-api`, its headers, the
//! workspace's manifest from which the crate inherits, and the licences.
//!
//! In a checkout they lie beside this crate. A package of this crate holds no file from outside of its directory: there they are in
//! `carried`, where `.ci/release` has put them, with manifests named `Cargo.toml.carried`, as cargo packages no other crate's directory.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a crate and its tests need to build, in `plugin-api` and the crates within it.
const PARTS: [&str; 9] = [
    "Cargo.toml",
    "build.rs",
    "src",
    "macros/Cargo.toml",
    "macros/src",
    "lifecycle/Cargo.toml",
    "lifecycle/src",
    "testing/Cargo.toml",
    "testing/src",
];
/// What a manifest's name ends in, in a package.
const RENAMED: &str = ".carried";

fn main() -> io::Result<()> {
    let host = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo:rerun-if-changed=build.rs");
    let packaged = host.join("carried");
    let (root, ending) = if packaged.is_dir() {
        (packaged, RENAMED)
    } else {
        (host.join("..").canonicalize()?, "")
    };
    let api = root.join("plugin-api");
    let mut files = Vec::new();
    for part in PARTS {
        let ending = if part.ends_with("Cargo.toml") {
            ending
        } else {
            ""
        };
        let part = api.join(format!("{part}{ending}"));
        println!("cargo:rerun-if-changed={}", part.display());
        collect(&part, &mut files)?;
    }
    files.sort();

    let mut list = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&api).unwrap_or(&file);
        let name: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        let name = name.join("/");
        let name = name.strip_suffix(RENAMED).unwrap_or(&name);
        let place = file.to_string_lossy();
        let _ = writeln!(list, "    ({name:?}, include_str!({place:?})),");
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("plugin_api_sources.rs"), list)?;

    let workspace = root.join(format!("Cargo.toml{ending}"));
    println!("cargo:rerun-if-changed={}", workspace.display());
    fs::copy(workspace, out.join("workspace.toml"))?;
    println!("cargo:rustc-env=SCONCE_CARRIED={}", root.display());
    Ok(())
}

/// The files at or below a path.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
