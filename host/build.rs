//! Lists the sources of `sconce-plugin-api`, which the binary carries for the plugins that `sconce new-plugin` makes.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a crate needs to build, in `plugin-api` and `plugin-api/macros`.
const PARTS: [&str; 5] = [
    "Cargo.toml",
    "build.rs",
    "src",
    "macros/Cargo.toml",
    "macros/src",
];

fn main() -> io::Result<()> {
    let host = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let api = host.join("../plugin-api").canonicalize()?;
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    for part in PARTS {
        let part = api.join(part);
        println!("cargo:rerun-if-changed={}", part.display());
        collect(&part, &mut files)?;
    }
    files.sort();

    let mut list = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&api).unwrap_or(&file);
        let name: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        let name = name.join("/");
        let place = file.to_string_lossy();
        let _ = writeln!(list, "    ({name:?}, include_str!({place:?})),");
    }
    list.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("plugin_api_sources.rs"), list)
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
