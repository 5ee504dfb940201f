//! Tokens of a text that a manifest names, made once and kept in the user's cache directory.
//!
//! They are a directory as `sconce tokenize` writes it, whose name is a hash of the text and the tokenizer, so that a change of
//! either makes new ones. It is made under another name and renamed: of two runs that make it at once, one is first.

use std::fs;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use sconce_base::regular_file::open_regular;

use super::tokenizer::Tokenizer;
use super::writing::index::TokenIndex;
use super::writing::{TokenizeOptions, tokenize, unwritten};
use crate::ContentHash;
use crate::error::{DataError, unreadable};
use crate::files::data_files::note_hash;
use crate::parallel;

/// Key of the text in the lines of `.jsonl` files.
const FIELD: &str = "text";

/// Returns the directory with the tokens of a text, which is noted as what was read.
///
/// # Errors
///
/// If the text or the tokenizer can't be read, or the tokens not be written.
pub(crate) fn tokens_of_text(text: &Path, tokenizer: &Path) -> Result<PathBuf, DataError> {
    let tokenizer = Tokenizer::open(tokenizer)?;
    directory_of(text, &tokenizer, None)
}

/// As [`tokens_of_text`], with a token after each document.
pub(super) fn directory_of(
    text: &Path,
    tokenizer: &Tokenizer,
    end: Option<u32>,
) -> Result<PathBuf, DataError> {
    directory_in(&kept_in()?, text, tokenizer, end)
}

/// As [`directory_of`], among those in `kept`.
pub(super) fn directory_in(
    kept: &Path,
    text: &Path,
    tokenizer: &Tokenizer,
    end: Option<u32>,
) -> Result<PathBuf, DataError> {
    let hashed = open_regular(text).and_then(ContentHash::of_reader);
    let (hash, bytes) = hashed.map_err(|error| unreadable(text, error))?;
    note_hash(text, bytes, hash);
    let key = format!("{hash} {} {end:?}", tokenizer.hash());
    let name = ContentHash::of(key.as_bytes()).digits();
    let directory = kept.join(&name);
    if TokenIndex::read(&directory)?.is_some() {
        return Ok(directory);
    }
    let output = kept.join(format!("{name}.{}", std::process::id()));
    let options = TokenizeOptions {
        output: output.clone(),
        field: FIELD.to_owned(),
        end,
        threads: parallel::cores(),
    };
    tokenize(tokenizer, &[text.to_owned()], &options, |_, _| ())?;
    match fs::rename(&output, &directory) {
        Ok(()) => {}
        // Another run was first.
        Err(_) if TokenIndex::read(&directory)?.is_some() => drop(fs::remove_dir_all(&output)),
        Err(error) => return Err(unwritten(&directory, error)),
    }
    Ok(directory)
}

/// The directory of all of them.
pub(super) fn kept_in() -> Result<PathBuf, DataError> {
    let base = etcetera::choose_base_strategy().map_err(|error| {
        let problem =
            format!("no home directory is known, in whose cache tokens are kept: {error}");
        unwritten(Path::new("tokens"), std::io::Error::other(problem))
    })?;
    Ok(base.cache_dir().join("sconce").join("tokens"))
}
