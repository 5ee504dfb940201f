//! `source.json` in the output directory: where the run's manifest was, at which relative paths of data start.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::files;
use crate::session::Failure;

const NAME: &str = "source.json";

#[derive(Serialize, Deserialize)]
struct Source {
    /// Absolute.
    directory: PathBuf,
}

/// Notes the directory of a run's manifest.
pub(super) fn save(output: &Path, base: &Path) -> Result<(), Failure> {
    let base = if base.as_os_str().is_empty() {
        Path::new(".")
    } else {
        base
    };
    let directory = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
    let text = format!("{:#}\n", serde_json::json!(Source { directory }));
    files::write_whole(&output.join(NAME), text.as_bytes()).map_err(|error| {
        let problem = format!("where the run's manifest is can't be saved: {error}");
        Failure::usage(vec![Diagnostic::new(problem)])
    })
}

/// The directory of the manifest of the run in a directory; nothing where an older host has written it.
pub(super) fn read(output: &Path) -> Option<PathBuf> {
    let text = fs_err::read(output.join(NAME)).ok()?;
    let source: Source = serde_json::from_slice(&text).ok()?;
    Some(source.directory)
}
