//! Paths in the system's directories, where only its administrator writes. What a library has loaded from elsewhere comes into
//! the process with it, and no signature covers it.

use std::path::{Component, Path};

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
