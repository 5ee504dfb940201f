//! Source of `sconce-plugin-api` for the new crate.

use std::path::{Path, PathBuf};

use super::sources;
use crate::diagnostic::Diagnostic;

/// Directory of the copy, in the new crate.
pub(super) const COPY: &str = "sconce-plugin-api";

/// The new crate's dependency on `sconce-plugin-api`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// The sources embedded in this program, copied into the crate.
    Copy,
    /// A directory of sources.
    Path(PathBuf),
    /// A version on crates.io.
    Version(String),
}

impl Api {
    /// Returns what the user named; otherwise the checkout that contains this program; otherwise the
    /// embedded sources.
    pub(super) fn find(named: Option<&str>) -> Result<Api, Diagnostic> {
        if let Some(named) = named {
            return Api::parse(named);
        }
        let program = crate::subprocess::executable().and_then(std::fs::canonicalize);
        let above = program
            .iter()
            .flat_map(|program| program.ancestors().skip(1));
        let mut checkouts = above.map(|place| place.join("plugin-api"));
        let checkout = checkouts.find(|place| is_api(place));
        Ok(checkout.map_or(Api::Copy, |path| {
            Api::Path(path.canonicalize().unwrap_or(path))
        }))
    }

    fn parse(named: &str) -> Result<Api, Diagnostic> {
        let path = Path::new(named);
        let directory = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        for candidate in [directory.clone(), directory.join("plugin-api")] {
            if is_api(&candidate) {
                return Ok(Api::Path(candidate));
            }
        }
        let is_version = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        if named.split('.').all(is_version) && named.split('.').count() <= 3 && !path.exists() {
            return Ok(Api::Version(named.to_owned()));
        }
        Err(Diagnostic::new(format!(
            "`{named}` is neither a version nor the directory of `sconce-plugin-api`"
        ))
        .hint("say `--api CHECKOUT/plugin-api`, or a version, as `--api 1.2`")
        .hint("without `--api` the crate gets a copy of the sources that came with this program"))
    }

    /// The dependency as written between its braces in `Cargo.toml`.
    pub(super) fn dependency(&self) -> String {
        match self {
            Api::Copy => format!("path = \"{COPY}\""),
            // TOML strings accept JSON's escapes.
            Api::Path(path) => format!("path = {}", serde_json::json!(path)),
            Api::Version(version) => format!("version = \"{version}\""),
        }
    }

    /// The dependency on the test kit likewise.
    pub(super) fn testing(&self) -> String {
        match self {
            Api::Copy => format!("path = \"{COPY}/testing\""),
            Api::Path(path) => format!("path = {}", serde_json::json!(path.join("testing"))),
            Api::Version(_) => self.dependency(),
        }
    }

    /// The `exclude` entry of the new crate's workspace.
    pub(super) fn excluded(&self) -> String {
        match self {
            Api::Copy => format!("exclude = [\"{COPY}\"]\n"),
            Api::Path(_) | Api::Version(_) => String::new(),
        }
    }

    /// Describes the source for the user.
    pub(super) fn in_words(&self) -> String {
        match self {
            Api::Copy => format!(
                "It is built on the sources of `sconce-plugin-api` {} in {COPY}, which came with sconce {}.",
                sources::version(),
                env!("CARGO_PKG_VERSION"),
            ),
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
        let built_on = Api::find(None).expect("the checkout, or the program's own sources");
        assert!(match &built_on {
            Api::Copy => true,
            Api::Path(path) => path.ends_with("plugin-api"),
            Api::Version(_) => false,
        });
        let version = Api::parse("1.2").ok();
        assert_eq!(version, Some(Api::Version("1.2".to_owned())));
        assert!(Api::parse("/nowhere").is_err());
        assert!(Api::parse("1.2.x").is_err());
    }
}
