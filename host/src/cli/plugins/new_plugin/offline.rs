//! Sources of other crates for machines without a network; archives have them in `share/sconce/vendor`.

use std::io;
use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;

/// Directory of the sources, in the new crate.
pub(super) const COPY: &str = "vendor";

/// Note about them for the new crate's author.
pub(super) const IN_WORDS: &str =
    "The other crates that it needs are in vendor: cargo builds it without a network.";

/// Configures cargo to take other crates only from there: the file, and its text.
pub(super) const CONFIG: (&str, &str) = (
    ".cargo/config.toml",
    "\
# Written by `sconce new-plugin --offline`: without this file cargo takes crates from crates.io.
[source.crates-io]
replace-with = \"vendor\"

[source.vendor]
directory = \"vendor\"
",
);

/// Finds the sources in the archive that this program came in.
pub(super) fn find() -> Result<PathBuf, Diagnostic> {
    let program = crate::subprocess::executable().and_then(std::fs::canonicalize);
    let program = program.unwrap_or_default();
    let root = program.parent().and_then(Path::parent);
    let place = root.unwrap_or(Path::new("..")).join("share/sconce/vendor");
    if place.is_dir() {
        return Ok(place);
    }
    Err(Diagnostic::new(
        "the sources of the crates that `sconce-plugin-api` needs did not come with this program",
    )
    .note(format!("there is no directory `{}`", place.display()))
    .hint(
        "only archives have them; without `--offline` cargo takes them from the network, or, once they were \
         fetched there, from `~/.cargo`",
    ))
}

/// Copies a directory recursively. The user may change and remove the copies, whatever the originals'
/// permissions.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs_err::create_dir_all(to)?;
    for entry in fs_err::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs_err::write(&target, fs_err::read(entry.path())?)?;
        }
    }
    Ok(())
}
