//! `source.json` in the output directory: the directory of the run's manifest, to which relative paths of data
//! refer.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::session::StartFailure;
use sconce_base::held_directory::HeldDirectory;

const NAME: &str = "source.json";

#[derive(Serialize, Deserialize)]
struct ManifestDirectory {
    /// Absolute path.
    directory: PathBuf,
}

/// Saves the directory of a run's manifest.
pub(crate) fn save(run: &HeldDirectory, base: &Path) -> Result<(), StartFailure> {
    let base = if base.as_os_str().is_empty() {
        Path::new(".")
    } else {
        base
    };
    let directory = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
    let text = format!("{:#}\n", serde_json::json!(ManifestDirectory { directory }));
    let file = run.path().join(NAME);
    run.write_atomically(&file, text.as_bytes())
        .map_err(|error| {
            let problem = format!("where the run's manifest is can't be saved: {error}");
            StartFailure::usage(vec![Diagnostic::new(problem)])
        })
}

/// Reads the directory of a run's manifest; `None` for a run by an older host.
pub(crate) fn read(output: &Path) -> Option<PathBuf> {
    let text = fs_err::read(output.join(NAME)).ok()?;
    let source: ManifestDirectory = serde_json::from_slice(&text).ok()?;
    Some(source.directory)
}
