//! Sources of `sconce-plugin-api` embedded in this program, as crates that build outside its workspace.

use crate::diagnostic::Diagnostic;

/// Every file, by its path in `plugin-api`.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/plugin_api_sources.rs"));

/// Manifest of the workspace from which the crates inherit.
const WORKSPACE: &str = include_str!(concat!(env!("OUT_DIR"), "/workspace.toml"));

/// Licences, needed because the sources are distributed separately.
const LICENCES: [(&str, &str); 2] = [
    (
        "LICENSE-APACHE",
        include_str!(concat!(env!("SCONCE_CARRIED"), "/LICENSE-APACHE")),
    ),
    (
        "LICENSE-MIT",
        include_str!(concat!(env!("SCONCE_CARRIED"), "/LICENSE-MIT")),
    ),
];

/// All files, with paths relative to the crate's directory and manifests that inherit nothing.
pub(super) fn files() -> Result<Vec<(&'static str, String)>, Diagnostic> {
    let licences = LICENCES
        .iter()
        .map(|&(name, text)| Ok((name, text.to_owned())));
    let sources = FILES.iter().map(|&(name, text)| {
        let text = match name.strip_suffix("Cargo.toml") {
            Some(directory) => standalone(text, directory)?,
            None => text.to_owned(),
        };
        Ok((name, text))
    });
    licences.chain(sources).collect()
}

/// Version of the crate.
pub(super) fn version() -> &'static str {
    let manifest = FILES.iter().find(|(name, _)| *name == "Cargo.toml");
    let mut lines = manifest.map_or("", |(_, text)| text).lines();
    let version = lines.find_map(|line| line.strip_prefix("version = "));
    version.unwrap_or_default().trim_matches('"')
}

/// Returns the manifest of a crate in `directory` of `plugin-api`, with inherited values filled in. Lints and development
/// dependencies are left out.
fn standalone(manifest: &str, directory: &str) -> Result<String, Diagnostic> {
    let mut text = String::new();
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        if matches!(section, "[lints]" | "[dev-dependencies]") {
            continue;
        }
        let from = match section {
            "[package]" => "[workspace.package]",
            _ => "[workspace.dependencies]",
        };
        match line.strip_suffix(".workspace = true") {
            Some(key) => {
                let value = inherited(from, key).ok_or_else(|| {
                    Diagnostic::new(format!("`{key}` of {from} has no value on one line")).note(
                        format!("in plugin-api/{directory}Cargo.toml of this program's sources"),
                    )
                })?;
                let value = from_directory(value, directory);
                for part in [key, " = ", value.as_str()] {
                    text.push_str(part);
                }
            }
            None => text.push_str(line),
        }
        text.push('\n');
    }
    Ok(text.trim_end().to_owned() + "\n")
}

/// A dependency on a crate of `plugin-api`, by its path in the workspace, as one by its path from a directory in `plugin-api`.
fn from_directory(dependency: &str, directory: &str) -> String {
    let up = "../".repeat(directory.matches('/').count());
    dependency
        .replace("path = \"plugin-api/", &format!("path = \"{up}"))
        .replace("path = \"plugin-api\"", &format!("path = \"{up}\""))
}

/// Value of a key in a section of the workspace's manifest.
fn inherited(section: &str, key: &str) -> Option<&'static str> {
    let (_, rest) = WORKSPACE.split_once(&format!("\n{section}\n"))?;
    let mut lines = rest.lines().take_while(|line| !line.starts_with('['));
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
    let is_whole = match value.chars().next()? {
        '{' => value.ends_with('}'),
        '[' => value.ends_with(']'),
        _ => true,
    };
    is_whole.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_inherited_and_nothing_lies_elsewhere() {
        let files = files().expect("the manifests can be written out");
        let of = |name: &str| {
            let found = files.iter().find(|(other, _)| *other == name);
            found.map_or("", |(_, text)| text.as_str())
        };
        for (name, is_inner) in [
            ("Cargo.toml", false),
            ("macros/Cargo.toml", false),
            ("lifecycle/Cargo.toml", true),
            ("testing/Cargo.toml", true),
        ] {
            let manifest = of(name);
            assert!(!manifest.contains("workspace"), "{manifest}");
            assert_eq!(manifest.contains("../"), is_inner, "{manifest}");
            let has_tests = manifest.lines().any(|line| line == "[dev-dependencies]");
            assert!(!has_tests, "{manifest}");
            assert!(
                manifest.contains("license = \"MIT OR Apache-2.0\""),
                "{manifest}"
            );
        }
        let macros = "sconce-plugin-macros = { path = \"macros\", ";
        assert!(of("Cargo.toml").contains(macros), "{}", of("Cargo.toml"));
        let kit = of("testing/Cargo.toml");
        for dependency in [
            "sconce-plugin-api = { path = \"../\", ",
            "sconce-lifecycle = { path = \"../lifecycle\", ",
        ] {
            assert!(kit.contains(dependency), "{kit}");
        }
        assert!(of("testing/src/lib.rs").contains("ScriptedRun"));
        assert!(of("src/lib.rs").contains("pub mod"));
        assert!(of("macros/src/lib.rs").contains("proc_macro"));
        assert!(of("LICENSE-MIT").contains("MIT"));
        assert_eq!(version(), sconce_plugin_api::abi::API_VERSION);
    }

    #[test]
    fn what_can_not_be_inherited_is_an_error() {
        let manifest = "[dependencies]\nno-such-crate.workspace = true\n";
        let problem = standalone(manifest, "").expect_err("there is no value");
        assert!(
            problem.message.contains("no-such-crate"),
            "{}",
            problem.message
        );
    }
}
