//! Where an ELF library has others loaded from that are not the system's: from there, what no signature covers comes into the
//! process with it.

use std::path::{Component, Path};

use object::elf::{
    DT_AUDIT, DT_AUXILIARY, DT_DEPAUDIT, DT_FILTER, DT_NEEDED, DT_RPATH, DT_RUNPATH,
};

use super::super::StructureFault;
use super::dynamic::Dynamic;
use super::symbols::Symbols;

/// Directories that only the system's administrator writes to.
const SYSTEM: [&str; 8] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
];

/// Names and places by which a library has others loaded from outside of the system's directories, as it has them.
pub(super) fn places(
    dynamic: &Dynamic,
    symbols: &Symbols<'_>,
) -> Result<Vec<String>, StructureFault> {
    let mut found = Vec::new();
    for offset in dynamic.all(DT_NEEDED) {
        let name = symbols.string(offset, "a needed library's name")?;
        // A path, not a name that is searched for.
        if name.contains('/') && !is_systems(&name) {
            found.push(name);
        }
    }
    for tag in [DT_RPATH, DT_RUNPATH] {
        for offset in dynamic.all(tag) {
            let path = symbols.string(offset, "the path of needed libraries")?;
            let outside = path.split(':').filter(|place| !is_systems(place));
            found.extend(outside.map(str::to_owned));
        }
    }
    for tag in [DT_AUDIT, DT_DEPAUDIT, DT_FILTER, DT_AUXILIARY] {
        for offset in dynamic.all(tag) {
            found.push(symbols.string(offset, "the name of a library beside it")?);
        }
    }
    Ok(found)
}

/// Whether a path leads into a directory of the system, without words that the loader replaces.
pub(in crate::plugin) fn is_systems(path: &str) -> bool {
    let path = Path::new(path);
    let mut parts = path.components();
    let is_plain = parts.all(|part| match part {
        Component::Normal(name) => !name.to_string_lossy().contains('$'),
        Component::RootDir => true,
        _ => false,
    });
    is_plain && SYSTEM.iter().any(|system| path.starts_with(system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_of_the_systems_directories_are_the_systems() {
        for path in [
            "/usr/lib/x86_64-linux-gnu",
            "/lib64",
            "/nix/store/abc/lib",
            "/usr/lib/liba.so",
        ] {
            assert!(is_systems(path), "{path}");
        }
        for path in [
            "",
            ".",
            "$ORIGIN",
            "${ORIGIN}/../lib",
            "/usr/lib/../../home/x",
            "/usr/lib/$PLATFORM",
            "/usr/library",
            "/home/x/lib",
            "lib",
            "./liba.so",
        ] {
            assert!(!is_systems(path), "{path}");
        }
    }
}
