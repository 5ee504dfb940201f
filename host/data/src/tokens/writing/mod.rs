//! Token files from text files: raw numbers in nanoGPT's format, one file for each source, and an index of them.
//!
//! **Parts**: `source`: documents of a file, in pieces. `index`: `tokens.json`, what the
//! directory has and where it is from.
//!
//! **Flow**: of each source that the index doesn't have, pieces are read up to [`AT_ONCE`] bytes, encoded by all threads, and their
//! tokens written in the order of the text; the complete file gets its name, and the index its entry. So a run that was
//! interrupted continues with the source that it was in, and the tokens are the same whatever the number of threads.

pub(in crate::tokens) mod index;
mod source;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use sconce_base::files::write_atomically;

use self::index::{Source, TOKENIZER, TokenIndex};
pub(in crate::tokens) use self::source::LONGEST_LINE;
use self::source::{Piece, TextSource};
use super::TokenType;
use super::tokenizer::{Tokenizer, training};
use crate::ContentHash;
use crate::error::{DataError, TokensError, unreadable};
use crate::parallel;
use sconce_base::regular_file::open_regular;

/// Bytes of text that are encoded at once: enough for all threads, little beside their memory.
const AT_ONCE: usize = 4 << 20;

/// What a text is made into, and how.
#[derive(Clone, Debug)]
pub struct TokenizeOptions {
    /// Directory for the tokens.
    pub output: PathBuf,
    /// Key of the text in the lines of `.jsonl` files.
    pub field: String,
    /// Token after each document: a file, or a line of a `.jsonl` file.
    pub end: Option<u32>,
    /// Number of threads, at least 1.
    pub threads: usize,
}

/// A source that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenizedSource {
    /// Bytes of its file.
    pub bytes: u64,
    /// Tokens made of it.
    pub tokens: u64,
    /// Whether they were there already.
    pub was_there: bool,
}

/// Learns a tokenizer with a vocabulary of `size` from text files.
///
/// # Errors
///
/// If a file can't be read or is not UTF-8, or there is too much or too little text.
pub fn train_tokenizer(
    size: usize,
    files: &[PathBuf],
    field: &str,
) -> Result<Tokenizer, DataError> {
    if !(training::LEAST..=super::vocabulary_source::MOST).contains(&size) {
        let problem = format!(
            "a vocabulary has at least the 256 bytes and `{}`: give {} or more tokens",
            training::END,
            training::LEAST
        );
        return Err(TokensError::Training(problem).into());
    }
    let mut bytes = 0;
    for file in files {
        let metadata = fs::metadata(file).map_err(|error| unreadable(file, error))?;
        bytes += metadata.len();
    }
    if bytes >= training::MOST_TEXT {
        let problem = format!(
            "{bytes} bytes of text are too many to learn from: the pairs of less than {} are counted, so give a sample, and \
             tokenize the rest by `--tokenizer`",
            training::MOST_TEXT
        );
        return Err(TokensError::Training(problem).into());
    }
    let mut failed = None;
    let mut texts = Texts {
        files,
        field,
        open: None,
    };
    let pieces = std::iter::from_fn(|| match texts.next() {
        Ok(piece) => piece.map(|piece| piece.text),
        Err(error) => {
            failed = Some(error);
            None
        }
    });
    let learnt = training::train(size, pieces);
    if let Some(error) = failed {
        return Err(error);
    }
    learnt.map_err(|problem| TokensError::Training(problem).into())
}

/// The pieces of several files.
struct Texts<'a> {
    files: &'a [PathBuf],
    field: &'a str,
    open: Option<TextSource>,
}

impl Texts<'_> {
    fn next(&mut self) -> Result<Option<Piece>, DataError> {
        loop {
            if let Some(source) = &mut self.open
                && let Some(piece) = source.next()?
            {
                return Ok(Some(piece));
            }
            let Some((next, rest)) = self.files.split_first() else {
                return Ok(None);
            };
            self.files = rest;
            self.open = Some(TextSource::open(next, self.field)?);
        }
    }
}

/// Makes tokens of text files, and calls `report` with each that is done.
///
/// # Errors
///
/// If a file can't be read, is not text, or has a text that the tokenizer fails at, with its line; if the directory has other
/// tokens; if it can't be written.
pub fn tokenize(
    tokenizer: &Tokenizer,
    files: &[PathBuf],
    options: &TokenizeOptions,
    mut report: impl FnMut(&Path, TokenizedSource),
) -> Result<(), DataError> {
    if files.is_empty() {
        return Err(TokensError::NoFiles("sconce tokenize").into());
    }
    let directory = &options.output;
    fs::create_dir_all(directory).map_err(|error| unwritten(directory, error))?;
    let new = TokenIndex::new(tokenizer, options.end);
    let mut index = match TokenIndex::read(directory)? {
        Some(index) => index.continued_by(&new, directory)?,
        None => new,
    };
    let file = directory.join(TOKENIZER);
    let written = write_atomically(&file, tokenizer.source());
    written.map_err(|error| unwritten(&file, error))?;
    let known = std::mem::take(&mut index.files);
    for (place, file) in files.iter().enumerate() {
        let known = known.get(place);
        let (source, was_there) = match known.filter(|known| is_current(known, file, options)) {
            Some(known) => (known.clone(), true),
            None => (one(tokenizer, file, options, &index)?, false),
        };
        report(
            file,
            TokenizedSource {
                bytes: source.source_bytes,
                tokens: source.tokens,
                was_there,
            },
        );
        index.files.push(source);
        index.write(directory)?;
    }
    Ok(())
}

/// Whether the tokens of a source are there, and the source has not changed since.
fn is_current(known: &Source, file: &Path, options: &TokenizeOptions) -> bool {
    let tokens = fs::metadata(options.output.join(&known.file));
    let size = tokens.map(|tokens| tokens.len()).ok();
    if size != Some(known.tokens.saturating_mul(known.dtype.size()))
        || known.field != field_of(file, options)
    {
        return false;
    }
    let hash = open_regular(file).and_then(ContentHash::of_reader);
    hash.is_ok_and(|(hash, _)| hash == known.source_hash)
}

/// The key of the text, where a file has any.
fn field_of(file: &Path, options: &TokenizeOptions) -> Option<String> {
    source::has_lines(file).then(|| options.field.clone())
}

/// Makes tokens of one file.
fn one(
    tokenizer: &Tokenizer,
    file: &Path,
    options: &TokenizeOptions,
    index: &TokenIndex,
) -> Result<Source, DataError> {
    let name = index.new_name(file);
    let path = options.output.join(&name);
    let partial = options.output.join(format!("{name}.partial"));
    let failed = |error| unwritten(&partial, error);
    let mut source = TextSource::open(file, &options.field)?;
    let mut writer = BufWriter::new(File::create(&partial).map_err(failed)?);
    let mut tokens = 0;
    loop {
        let pieces = at_once(&mut source)?;
        if pieces.is_empty() {
            break;
        }
        let encode = |piece: &Piece| tokenizer.encode(&piece.text, false);
        let encoded = parallel::map(&pieces, options.threads, encode);
        for (piece, encoded) in pieces.iter().zip(encoded) {
            let encoded = encoded.map_err(|problem| TokensError::Text {
                file: file.to_owned(),
                line: piece.line,
                problem,
            })?;
            let end = options.end.filter(|_| piece.is_last);
            for token in encoded.into_iter().chain(end) {
                write_token(&mut writer, index.dtype, token).map_err(failed)?;
                tokens += 1;
            }
        }
    }
    let written = writer
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    written.sync_all().map_err(failed)?;
    fs::rename(&partial, &path).map_err(|error| unwritten(&path, error))?;
    let (source_hash, source_bytes) = source.finish()?;
    Ok(Source {
        file: name,
        tokens,
        dtype: index.dtype,
        source: file.display().to_string(),
        source_bytes,
        source_hash,
        field: field_of(file, options),
    })
}

/// The next pieces of a source; none at its end.
fn at_once(source: &mut TextSource) -> Result<Vec<Piece>, DataError> {
    let (mut pieces, mut bytes) = (Vec::new(), 0);
    while bytes < AT_ONCE
        && let Some(piece) = source.next()?
    {
        bytes += piece.text.len().max(1);
        pieces.push(piece);
    }
    Ok(pieces)
}

fn write_token(writer: &mut impl Write, dtype: TokenType, token: u32) -> std::io::Result<()> {
    match dtype {
        // The type is that of the vocabulary, whose ids are below its size.
        TokenType::U16 => writer.write_all(&(token as u16).to_le_bytes()),
        TokenType::U32 => writer.write_all(&token.to_le_bytes()),
    }
}

/// The error of a file that can't be written.
pub(in crate::tokens) fn unwritten(file: &Path, source: std::io::Error) -> DataError {
    TokensError::Write {
        file: file.to_owned(),
        source,
    }
    .into()
}
