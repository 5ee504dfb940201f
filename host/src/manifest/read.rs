//! Reads the text of a manifest file.

use std::fs::{File, Metadata};
use std::io::{IsTerminal, Read};
use std::path::Path;

use crate::diagnostic::Diagnostic;
use sconce_data::regular_file::is_given;

/// Maximum length of a manifest in bytes; a longer file was not meant as one.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Reads a file, or a pipe to its end.
///
/// # Errors
///
/// If it can't be read, is too long, or is not UTF-8.
pub(super) fn text(path: &Path) -> Result<String, Diagnostic> {
    bytes(path).and_then(decoded).map_err(|reason| {
        let message = format!("can't read the manifest `{}`: {reason}", path.display());
        let problem = match std::path::absolute(path) {
            Ok(absolute) if absolute != path => {
                Diagnostic::new(message).note(format!("file: {}", absolute.display()))
            }
            _ => Diagnostic::new(message),
        };
        if path.exists() {
            problem
        } else {
            problem.hint("`sconce new-run` writes a manifest to begin with")
        }
    })
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    // Checked before opening, since opening a device may have side effects.
    let data = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if data.is_dir() {
        return Err("it is a directory".to_owned());
    }
    if data.is_file() && data.len() > LONGEST {
        return Err(format!(
            "it has {} bytes, the limit is {LONGEST}",
            data.len()
        ));
    }
    let is_input = is_terminal(path);
    if is_pipe(&data) && !is_given(path) {
        return Err(
            "it is a named pipe (FIFO), which might never end; give the manifest as a file, or by \
                    `/dev/stdin`"
                .to_owned(),
        );
    }
    if !data.is_file() && !is_pipe(&data) && !is_input {
        return Err("it is neither a file nor a pipe".to_owned());
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    // Read with a limit: a pipe's length is unknown, and a file may grow.
    file.take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LONGEST) {
        return Err(format!("it has more than {LONGEST} bytes, the limit"));
    }
    Ok(bytes)
}

/// Whether the path is a terminal's input.
fn is_terminal(path: &Path) -> bool {
    path == Path::new("/dev/stdin") && std::io::stdin().is_terminal()
}

#[cfg(unix)]
fn is_pipe(data: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    data.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

fn decoded(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err("it begins with a byte order mark; save it without one".to_owned());
    }
    // JSON begins with an ASCII character, so in UTF-16 one of the first two bytes is zero.
    let is_wide = |start: &[u8]| matches!(start, [0xff, 0xfe] | [0xfe, 0xff] | [0, _] | [_, 0]);
    if bytes.get(..2).is_some_and(is_wide) {
        return Err("it is UTF-16; save it as UTF-8, without a byte order mark".to_owned());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..at).unwrap_or_default();
        let line = before.split(|byte| *byte == b'\n').count();
        format!("it is not UTF-8: byte {at} is wrong, in line {line}")
    })
}
