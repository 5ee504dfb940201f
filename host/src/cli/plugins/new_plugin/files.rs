//! The files of a new plugin.

use std::path::Path;

use crate::diagnostic::Diagnostic;

/// Refuses a directory that is not empty.
pub(super) fn check_empty(directory: &Path) -> Result<(), Diagnostic> {
    let problem = match std::fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => return Ok(()),
            Some(_) => format!("`{}` is there already, and not empty", directory.display()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => format!("`{}` can't be written to: {error}", directory.display()),
    };
    Err(Diagnostic::new(problem).hint("choose another name, or another place by `--path DIR`"))
}

/// Writes files with these names and texts into a directory.
pub(super) fn write_files(directory: &Path, files: &[(String, String)]) -> Result<(), Diagnostic> {
    for (file, text) in files {
        write(&directory.join(file), text).map_err(failed)?;
    }
    Ok(())
}

/// The error of a file that can't be written.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn failed(error: std::io::Error) -> Diagnostic {
    Diagnostic::new(format!("the plugin can't be written: {error}"))
}

/// Writes a file, and the directories above it.
pub(super) fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs_err::create_dir_all(directory)?;
    }
    fs_err::write(path, text)
}
