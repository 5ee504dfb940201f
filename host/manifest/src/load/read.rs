//! Reads the text of a manifest file.

use std::fs::{File, Metadata};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;
use crate::shell_word::shell_word;
use sconce_base::regular_file::is_given;

/// Maximum length of a manifest in bytes; a longer file was not meant as one.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Extensions of files with data or weights.
const DATA: [&str; 14] = [
    "bmp",
    "csv",
    "gif",
    "gz",
    "jpeg",
    "jpg",
    "npy",
    "npz",
    "parquet",
    "png",
    "safetensors",
    "tsv",
    "txt",
    "webp",
];

/// Number of a directory's entries that are looked at for a manifest.
const MOST_ENTRIES: usize = 1000;

/// Reads a file, or a pipe to its end.
///
/// # Errors
///
/// If it can't be read, is too long, or is not UTF-8.
pub(super) fn text(path: &Path) -> Result<String, Diagnostic> {
    let read = bytes(path).and_then(|bytes| {
        if is_data(path, &bytes) {
            return Err(
                "it is data, and a manifest is JSON that says what to train on it".to_owned(),
            );
        }
        decoded(bytes)
    });
    read.map_err(|reason| {
        let message = format!("can't read the manifest `{}`: {reason}", path.display());
        let problem = match std::path::absolute(path) {
            Ok(absolute) if absolute != path => {
                Diagnostic::new(message).note(format!("file: {}", absolute.display()))
            }
            _ => Diagnostic::new(message),
        };
        advice(path).into_iter().fold(problem, Diagnostic::hint)
    })
}

/// What to give instead of a path that is not a manifest's.
fn advice(path: &Path) -> Option<String> {
    let shown = shell_word(&path.to_string_lossy()).into_owned();
    if !path.exists() {
        return Some("`sconce new-run` writes a manifest to begin with".to_owned());
    }
    if path.is_dir() {
        if path.join("run.json").is_file() {
            return Some(format!(
                "it is the directory of a run: `sconce runs {shown}` shows it, and `sconce eval` or `sconce predict {shown}` \
                 uses its model; to train, give the manifest's file"
            ));
        }
        if let Some(manifest) = only_json(path) {
            let manifest = manifest.to_string_lossy();
            return Some(format!("give the file in it: `{}`", shell_word(&manifest)));
        }
    }
    let is_of_data = path.is_dir() || !has_ending(path, &["json", "jsonc"]);
    is_of_data.then(|| format!("for data, `sconce new-run {shown}` writes a manifest"))
}

/// The JSON file of a directory that has a single one.
fn only_json(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.take(MOST_ENTRIES);
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found = paths.filter(|path| {
        let is_schema = path.to_string_lossy().ends_with(".schema.json");
        has_ending(path, &["json", "jsonc"]) && !is_schema
    });
    found.next().filter(|_| found.next().is_none())
}

/// Whether a file is a table, a text, images or weights: by its extension, unless it begins as a manifest does.
fn is_data(path: &Path, bytes: &[u8]) -> bool {
    let begins_as_manifest = bytes.trim_ascii_start().first() == Some(&b'{');
    !begins_as_manifest && has_ending(path, &DATA)
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|found| {
        endings
            .iter()
            .any(|known| found.eq_ignore_ascii_case(known))
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
