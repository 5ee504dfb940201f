//! The text of a file in pieces, of which only the next are in memory: a document, or one on each line of a `.jsonl` file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::ContentHash;
use crate::error::{DataError, TokensError, unreadable};
use crate::files::data_files::ContentHasher;
use crate::signature;
use crate::tokens::tokenizer::pieces::{MOST, first_piece, pieces};
use sconce_base::regular_file::open_regular;

/// Longest line of a `.jsonl` file in bytes.
pub(in crate::tokens) const LONGEST_LINE: u64 = 64 << 20;

/// Bytes read at once.
const READ: usize = 1 << 20;

/// A piece of a text.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Line of the file that it begins in, from 1.
    pub(super) line: u64,
    /// Whether its document ends with it.
    pub(super) is_last: bool,
}

/// A file that is read from its start to its end.
pub(super) struct TextSource {
    path: PathBuf,
    reader: HashedReader,
    /// Line of the next piece.
    line: u64,
    form: Form,
}

enum Form {
    /// One document; what was read of it and not handed out.
    Plain { rest: Vec<u8>, is_done: bool },
    /// One in each line, under this key; the rest of the one at hand.
    Lines {
        field: String,
        ready: VecDeque<Piece>,
    },
}

/// Reads a file, and hashes it.
struct HashedReader {
    reader: BufReader<File>,
    hasher: ContentHasher,
}

/// Whether a file has a document in each line.
pub(super) fn has_lines(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"))
}

impl TextSource {
    pub(super) fn open(path: &Path, field: &str) -> Result<TextSource, DataError> {
        let file = open_regular(path).map_err(|error| unreadable(path, error))?;
        let mut reader = HashedReader {
            reader: BufReader::with_capacity(READ, file),
            hasher: ContentHasher::default(),
        };
        let start = reader.reader.fill_buf();
        let start = start.map_err(|error| unreadable(path, error))?;
        if let Some(found) = signature::of(start).filter(|found| found.is_packed) {
            return Err(crate::files::file::other_format(path, found, false));
        }
        let form = if has_lines(path) {
            Form::Lines {
                field: field.to_owned(),
                ready: VecDeque::new(),
            }
        } else {
            Form::Plain {
                rest: Vec::new(),
                is_done: false,
            }
        };
        Ok(TextSource {
            path: path.to_owned(),
            reader,
            line: 1,
            form,
        })
    }

    /// Returns the next piece; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, DataError> {
        match &mut self.form {
            Form::Plain { rest, is_done } => {
                if *is_done {
                    return Ok(None);
                }
                let failed = |error| unreadable(&self.path, error);
                let mut is_all = false;
                let length = loop {
                    if let Some(length) = first_piece(rest, is_all) {
                        break length;
                    }
                    let read = self.reader.append(rest, MOST + 1).map_err(failed)?;
                    is_all = read == 0;
                };
                let after = rest.split_off(length);
                let bytes = std::mem::replace(rest, after);
                let line = self.line;
                self.line += lines(&bytes);
                let text = String::from_utf8(bytes).map_err(|error| {
                    let before = error.as_bytes().get(..error.utf8_error().valid_up_to());
                    TokensError::Text {
                        file: self.path.clone(),
                        line: line + lines(before.unwrap_or_default()),
                        problem: "this is not UTF-8: convert it".to_owned(),
                    }
                })?;
                if rest.is_empty() {
                    *is_done = self.reader.append(rest, 1).map_err(failed)? == 0;
                }
                Ok(Some(Piece {
                    text,
                    line,
                    is_last: *is_done,
                }))
            }
            Form::Lines { field, ready } => loop {
                if let Some(piece) = ready.pop_front() {
                    return Ok(Some(piece));
                }
                let read = self.reader.line();
                let Some(bytes) = read.map_err(|error| unreadable(&self.path, error))? else {
                    return Ok(None);
                };
                let line = self.line;
                self.line += 1;
                if bytes.trim_ascii().is_empty() {
                    continue;
                }
                let text = text_of(&bytes, field).map_err(|problem| TokensError::Text {
                    file: self.path.clone(),
                    line,
                    problem,
                })?;
                let piece = |text: &str| Piece {
                    text: text.to_owned(),
                    line,
                    is_last: false,
                };
                ready.extend(pieces(&text).map(piece));
                if ready.is_empty() {
                    ready.push_back(piece(""));
                }
                if let Some(last) = ready.back_mut() {
                    last.is_last = true;
                }
            },
        }
    }

    /// Returns hash and size of the file, all of which has been read.
    pub(super) fn finish(mut self) -> Result<(ContentHash, u64), DataError> {
        let mut rest = Vec::new();
        while self
            .reader
            .append(&mut rest, READ)
            .map_err(|error| unreadable(&self.path, error))?
            > 0
        {
            rest.clear();
        }
        let hasher = &self.reader.hasher;
        Ok((hasher.finish(), hasher.count()))
    }
}

fn lines(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').skip(1).count() as u64
}

/// The text under a key of a JSON object.
fn text_of(line: &[u8], field: &str) -> Result<String, String> {
    let value: Value =
        serde_json::from_slice(line).map_err(|error| format!("this is not JSON: {error}"))?;
    match value {
        Value::Object(mut object) => match object.remove(field) {
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(format!("`{field}` is not a text")),
            None => {
                let mut keys: Vec<String> = object.keys().map(|key| format!("`{key}`")).collect();
                keys.truncate(8);
                Err(format!(
                    "there is no `{field}` here, but {}: name the key of the text by `--field`",
                    keys.join(", ")
                ))
            }
        },
        _ => Err("this is not a JSON object".to_owned()),
    }
}

impl HashedReader {
    /// Appends up to `count` bytes; says how many.
    fn append(&mut self, bytes: &mut Vec<u8>, count: usize) -> std::io::Result<usize> {
        let start = bytes.len();
        let read = (&mut self.reader).take(count as u64).read_to_end(bytes)?;
        self.hasher.update(bytes.get(start..).unwrap_or_default());
        Ok(read)
    }

    /// Reads a line; none at the end.
    fn line(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = (&mut self.reader)
            .take(LONGEST_LINE + 1)
            .read_until(b'\n', &mut line)?;
        if read as u64 > LONGEST_LINE {
            let problem = format!("a line has more than {LONGEST_LINE} bytes");
            return Err(std::io::Error::other(problem));
        }
        self.hasher.update(&line);
        Ok((read > 0).then_some(line))
    }
}
