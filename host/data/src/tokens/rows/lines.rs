//! Rows as their file has them, and those of a file of lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use sconce_base::regular_file::open_regular;
use serde_json::{Map, Value};

use crate::error::{DataError, TokensError, unreadable};
use crate::tokens::writing::LONGEST_LINE;

/// Bytes of lines that are worked on at once.
const AT_ONCE: usize = 4 << 20;

/// A row, and its number from 1: that of its line in a file of lines.
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) content: Content,
}

/// A row, as its file has it.
pub(super) enum Content {
    /// A JSON object, which was not looked at.
    Json(Vec<u8>),
    /// An object.
    Object(Map<String, Value>),
}

impl Content {
    /// The object of a row.
    pub(super) fn object(&self) -> Result<Map<String, Value>, String> {
        match self {
            Content::Json(bytes) => object(bytes),
            Content::Object(row) => Ok(row.clone()),
        }
    }
}

/// The lines of a file that are not empty.
pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    number: u64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Lines, DataError> {
        let file = open_regular(path).map_err(|error| unreadable(path, error))?;
        Ok(Lines {
            path: path.to_owned(),
            reader: BufReader::new(file),
            number: 0,
        })
    }

    fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>, DataError> {
        loop {
            let mut bytes = Vec::new();
            let read = (&mut self.reader)
                .take(LONGEST_LINE + 1)
                .read_until(b'\n', &mut bytes)
                .map_err(|error| unreadable(&self.path, error))?;
            self.number += 1;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 > LONGEST_LINE {
                let problem = format!("it has more than {LONGEST_LINE} bytes");
                return Err(wrong(&self.path, self.number, problem));
            }
            if !bytes.trim_ascii().is_empty() {
                return Ok(Some((self.number, bytes)));
            }
        }
    }

    /// The next lines; none at the end.
    pub(super) fn some(&mut self) -> Result<Vec<Line>, DataError> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while bytes < AT_ONCE
            && let Some((number, line)) = self.next()?
        {
            bytes += line.len();
            lines.push(Line {
                number,
                content: Content::Json(line),
            });
        }
        Ok(lines)
    }
}

/// The error of a line.
pub(super) fn wrong(file: &Path, line: u64, problem: String) -> DataError {
    TokensError::Text {
        file: file.to_owned(),
        line,
        problem,
    }
    .into()
}

fn object(line: &[u8]) -> Result<Map<String, Value>, String> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("this is not a JSON object".to_owned()),
        Err(error) => Err(format!("this is not JSON: {error}")),
    }
}
