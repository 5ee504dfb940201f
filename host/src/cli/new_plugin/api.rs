//! Where the new crate gets `sconce-plugin-api` from.

use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;

/// The dependency of the new crate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// A directory of sources.
    Path(PathBuf),
    /// A version on crates.io.
    Version(String),
}

impl Api {
    /// What the user says, or the sources that this program was built from.
    pub(super) fn find(said: Option<&str>) -> Result<Api, Diagnostic> {
        if let Some(said) = said {
            return Api::parse(said);
        }
        let program = std::env::current_exe().and_then(std::fs::canonicalize);
        let above = program
            .iter()
            .flat_map(|program| program.ancestors().skip(1));
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let candidates = above
            .chain(built_from)
            .map(|place| place.join("plugin-api"));
        match candidates.into_iter().find(|place| is_api(place)) {
            Some(path) => Ok(Api::Path(path)),
            None => Err(Diagnostic::new(
                "`sconce-plugin-api`, which the plugin is built on, was not found",
            )
            .note("it is not on crates.io yet, and this program's sources are not here")
            .hint("say where it is: `--api CHECKOUT/plugin-api`")),
        }
    }

    fn parse(said: &str) -> Result<Api, Diagnostic> {
        let path = Path::new(said);
        let directory = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        for candidate in [directory.clone(), directory.join("plugin-api")] {
            if is_api(&candidate) {
                return Ok(Api::Path(candidate));
            }
        }
        let is_version = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        if said.split('.').all(is_version) && said.split('.').count() <= 3 && !path.exists() {
            return Ok(Api::Version(said.to_owned()));
        }
        Err(Diagnostic::new(format!(
            "`{said}` is neither a version nor the directory of `sconce-plugin-api`"
        ))
        .hint("say `--api CHECKOUT/plugin-api`, or a version, as `--api 1.2`"))
    }

    /// What stands in the braces of the dependency.
    pub(super) fn dependency(&self) -> String {
        match self {
            // A TOML text takes JSON's escapes.
            Api::Path(path) => format!("path = {}", serde_json::json!(path)),
            Api::Version(version) => format!("version = \"{version}\""),
        }
    }

    /// Where it comes from, for the user.
    pub(super) fn in_words(&self) -> String {
        match self {
            Api::Path(path) => format!(
                "It is built on the sources in {}: `sconce-plugin-api` is not on crates.io yet.",
                path.display()
            ),
            Api::Version(version) => format!("It is built on `sconce-plugin-api` {version}."),
        }
    }
}

/// Whether a directory has the sources of `sconce-plugin-api`.
fn is_api(directory: &Path) -> bool {
    let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
    let mut lines = manifest.lines();
    lines.any(|line| line.trim() == "name = \"sconce-plugin-api\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_a_directory_or_neither() {
        let built_on = Api::find(None).expect("the checkout");
        assert!(matches!(&built_on, Api::Path(path) if path.ends_with("plugin-api")));
        let version = Api::parse("1.2").ok();
        assert_eq!(version, Some(Api::Version("1.2".to_owned())));
        assert!(Api::parse("/nowhere").is_err());
        assert!(Api::parse("1.2.x").is_err());
    }
}
