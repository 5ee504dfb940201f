//! The files of a table's tokens, in the user's cache directory: all tokens, one after the other; a table with the end and the
//! class of each row; and a description.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use sconce_base::files::write_atomically;
use sconce_base::regular_file::read_at_most;
use sconce_nn::TokenTargets;
use serde::{Deserialize, Serialize};

use crate::DataError;
use crate::error::{TokensError, unreadable};
use crate::files::watched_file::{ReadProblem, WatchedFile};
use crate::tokens::writing::unwritten;

/// Bit of a token that is learnt; vocabularies are far smaller.
const LEARNT: u32 = 1 << 31;

/// Class of a row that has none.
pub(super) const NO_CLASS: u32 = u32::MAX;

/// Bytes of a row in the table: the end of its tokens, and its class.
const ROW: usize = 12;

const TOKENS: &str = "rows.bin";
const TABLE: &str = "rows.table";
const DESCRIPTION: &str = "rows.json";

/// Most bytes of a description: classes.
const LARGEST: u64 = 1 << 28;

/// What the rows are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowsDescription {
    /// Number of rows that are there.
    pub(super) rows: u64,
    /// Rows whose end is cut off.
    pub(super) cut: u64,
    /// Rows that are left out: nothing of them would be learnt.
    pub(super) dropped: u64,
    /// Classes, in the order in which they were first.
    pub(super) classes: Vec<String>,
}

/// A token of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowToken {
    pub(super) id: u32,
    /// Whether it is to be predicted.
    pub(super) is_learnt: bool,
}

impl RowToken {
    /// What is to be predicted at the position before.
    pub(super) fn target(self) -> u32 {
        if self.is_learnt {
            self.id
        } else {
            TokenTargets::IGNORED
        }
    }
}

/// Rows that are read one by one.
#[derive(Debug)]
pub(super) struct RowStore {
    tokens: WatchedFile,
    ends: Vec<u64>,
    /// Index of each row's class in the description.
    pub(super) classes: Vec<u32>,
    pub(super) description: RowsDescription,
    /// What they were made of, for messages.
    pub(super) source: PathBuf,
}

impl RowStore {
    /// Opens the rows in a directory that were made of `source`; none if they are not there.
    pub(super) fn open(directory: &Path, source: &Path) -> Result<Option<RowStore>, DataError> {
        let description = directory.join(DESCRIPTION);
        let bytes = match read_at_most(&description, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&description, error)),
        };
        let wrong = |problem: &str| TokensError::Index {
            file: description.clone(),
            problem: format!("{problem}; remove its directory"),
        };
        let found: RowsDescription =
            serde_json::from_slice(&bytes).map_err(|error| wrong(&error.to_string()))?;
        let path = directory.join(TOKENS);
        let tokens = WatchedFile::open(&path).map_err(|error| unreadable(&path, error))?;
        let tokens = tokens.ok_or_else(|| wrong("its tokens are not a file"))?;
        let path = directory.join(TABLE);
        let size = found.rows.saturating_mul(ROW as u64);
        let table = read_at_most(&path, size).map_err(|error| unreadable(&path, error))?;
        let (table, rest) = table.as_chunks::<ROW>();
        if table.len() as u64 != found.rows || !rest.is_empty() {
            return Err(wrong("its table has another length").into());
        }
        let (mut ends, mut classes) = (
            Vec::with_capacity(table.len()),
            Vec::with_capacity(table.len()),
        );
        let mut last = 0;
        for row in table {
            let (end, class) = row.split_at(8);
            let end = u64::from_le_bytes(end.try_into().unwrap_or_default());
            let class = u32::from_le_bytes(class.try_into().unwrap_or_default());
            if end < last || end > tokens.length() / 4 {
                return Err(wrong("a row of its table ends outside of its tokens").into());
            }
            last = end;
            ends.push(end);
            classes.push(class);
        }
        Ok(Some(RowStore {
            tokens,
            ends,
            classes,
            description: found,
            source: source.to_owned(),
        }))
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Number of a row's tokens.
    pub(super) fn tokens_of(&self, row: u32) -> usize {
        let (start, end) = self.bounds(row);
        usize::try_from(end - start).unwrap_or(usize::MAX)
    }

    /// Where a row begins and ends among the tokens.
    fn bounds(&self, row: u32) -> (u64, u64) {
        let end = self.ends.get(row as usize).copied().unwrap_or(0);
        let before = (row as usize).checked_sub(1);
        let start = before.map_or(0, |row| self.ends.get(row).copied().unwrap_or(0));
        // A row that is not there has no tokens.
        (start.min(end), end)
    }

    /// Reads the tokens of a row, at most `most`.
    pub(super) fn read(&self, row: u32, most: usize) -> Result<Vec<RowToken>, DataError> {
        let (start, _) = self.bounds(row);
        let count = self.tokens_of(row).min(most);
        let mut bytes = vec![0; count * 4];
        let read = self.tokens.read_at(start * 4, &mut bytes);
        read.map_err(|problem: ReadProblem| problem.of_sample(&self.source, row as usize))?;
        let (tokens, _) = bytes.as_chunks::<4>();
        let token = |bytes: &[u8; 4]| {
            let marked = u32::from_le_bytes(*bytes);
            RowToken {
                id: marked & !LEARNT,
                is_learnt: marked & LEARNT != 0,
            }
        };
        Ok(tokens.iter().map(token).collect())
    }
}

/// Writes the files of a store.
pub(super) struct RowWriter {
    directory: PathBuf,
    tokens: BufWriter<File>,
    table: BufWriter<File>,
    end: u64,
}

impl RowWriter {
    /// Creates the directory and its files.
    pub(super) fn create(directory: &Path) -> Result<RowWriter, DataError> {
        fs::create_dir_all(directory).map_err(|error| unwritten(directory, error))?;
        let create = |name: &str| {
            let file = directory.join(name);
            let created = File::create(&file).map_err(|error| unwritten(&file, error))?;
            Ok::<_, DataError>(BufWriter::new(created))
        };
        Ok(RowWriter {
            directory: directory.to_owned(),
            tokens: create(TOKENS)?,
            table: create(TABLE)?,
            end: 0,
        })
    }

    pub(super) fn add(&mut self, row: &[RowToken], class: u32) -> Result<(), DataError> {
        let failed = |error| unwritten(&self.directory, error);
        for token in row {
            let mark = if token.is_learnt { LEARNT } else { 0 };
            let marked = (token.id | mark).to_le_bytes();
            self.tokens.write_all(&marked).map_err(failed)?;
        }
        self.end += row.len() as u64;
        self.table
            .write_all(&self.end.to_le_bytes())
            .map_err(failed)?;
        self.table.write_all(&class.to_le_bytes()).map_err(failed)
    }

    /// Completes the store: with its description it is one.
    pub(super) fn finish(mut self, description: &RowsDescription) -> Result<(), DataError> {
        let flushed = self.tokens.flush().and_then(|()| self.table.flush());
        flushed.map_err(|error| unwritten(&self.directory, error))?;
        let file = self.directory.join(DESCRIPTION);
        // Texts and numbers are always JSON.
        let bytes = serde_json::to_vec(description).unwrap_or_default();
        write_atomically(&file, &bytes).map_err(|error| unwritten(&file, error))
    }
}
