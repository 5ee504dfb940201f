//! Token files, one after the other as one sequence, of which parts are read.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::TokenType;
use crate::arrays::npy_vector::NpyVector;
use crate::error::{DataError, TokensError, unreadable};
use crate::files::watched_file::{ReadProblem, WatchedFile};

/// Number of tokens at both ends of a file that are compared with the vocabulary before training.
const COMPARED: u64 = 1 << 16;

/// Files of tokens as one sequence.
#[derive(Debug)]
pub(super) struct TokenFiles {
    files: Vec<TokenFile>,
    total: u64,
}

/// A file, and where it is in the sequence.
#[derive(Debug)]
struct TokenFile {
    file: WatchedFile,
    layout: NpyVector,
    /// Index of its first token in the sequence.
    first: u64,
}

/// A read that failed, in the file of this path.
pub(super) struct FailedRead {
    pub(super) file: PathBuf,
    pub(super) problem: ReadProblem,
}

impl TokenFiles {
    /// Opens files in order, with the type of those that don't say it themselves, and notes them as what is read.
    pub(super) fn open(paths: &[(PathBuf, TokenType)]) -> Result<TokenFiles, DataError> {
        let opened = TokenFiles::open_unnoted(paths)?;
        opened.files.iter().try_for_each(|file| file.file.note())?;
        Ok(opened)
    }

    /// As [`open`](TokenFiles::open), of files that are made of others.
    pub(super) fn open_unnoted(paths: &[(PathBuf, TokenType)]) -> Result<TokenFiles, DataError> {
        let mut opened = TokenFiles {
            files: Vec::with_capacity(paths.len()),
            total: 0,
        };
        for (path, raw) in paths {
            let file = WatchedFile::open(path).map_err(|error| unreadable(path, error))?;
            let Some(file) = file else {
                let problem = "it is a pipe, and tokens are read by their positions";
                return Err(unreadable(path, std::io::Error::other(problem)));
            };
            let layout = layout(&file, *raw)?;
            let first = opened.total;
            // No more than the bytes that there are, each file's fewer than 2^63.
            opened.total = first.saturating_add(layout.count);
            opened.files.push(TokenFile {
                file,
                layout,
                first,
            });
        }
        Ok(opened)
    }

    /// Returns the number of tokens.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of files.
    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    /// Returns the path of a file and the number of its tokens.
    pub(super) fn counted(&self, place: usize) -> Option<(&Path, u64)> {
        let file = self.files.get(place)?;
        Some((file.file.path(), file.layout.count))
    }

    /// Appends the tokens in a range of the sequence, which must be within it.
    pub(super) fn read(&self, range: Range<u64>, tokens: &mut Vec<u32>) -> Result<(), FailedRead> {
        let mut next = range.start;
        let from = self.files.partition_point(|file| file.first <= next);
        for file in self.files.iter().skip(from.saturating_sub(1)) {
            let end = file.first.saturating_add(file.layout.count).min(range.end);
            if next >= range.end {
                break;
            }
            if next < end {
                file.read(next - file.first..end - file.first, tokens)
                    .map_err(|problem| FailedRead {
                        file: file.file.path().to_owned(),
                        problem,
                    })?;
                next = end;
            }
        }
        Ok(())
    }

    /// Compares the ends of each file with the vocabulary: a file of another tokenizer should be noticed before training.
    pub(super) fn compare(&self, vocabulary: usize) -> Result<(), DataError> {
        let mut tokens = Vec::new();
        for file in &self.files {
            let (first, count) = (file.first, file.layout.count);
            let tail = count.saturating_sub(COMPARED);
            for start in [0, tail] {
                tokens.clear();
                let range = first + start..first + count.min(start + COMPARED);
                let read = self.read(range.clone(), &mut tokens);
                read.map_err(|FailedRead { file, problem }| problem.of_file(&file))?;
                self.check(&tokens, range.start, vocabulary)?;
            }
        }
        Ok(())
    }

    /// Checks that tokens from a place of the sequence on are in the vocabulary.
    pub(super) fn check(
        &self,
        tokens: &[u32],
        start: u64,
        vocabulary: usize,
    ) -> Result<(), TokensError> {
        let largest = tokens.iter().copied().max().unwrap_or(0);
        if (largest as usize) < vocabulary || tokens.is_empty() {
            return Ok(());
        }
        let place = tokens.iter().position(|&token| token == largest);
        let (file, offset) = self.place(start + place.unwrap_or(0) as u64);
        Err(TokensError::Unknown {
            file,
            offset,
            token: largest,
            vocabulary,
        })
    }

    /// Returns the file of a token of the sequence, and its place there in bytes.
    fn place(&self, token: u64) -> (PathBuf, u64) {
        let after = self.files.partition_point(|file| file.first <= token);
        let file = after.checked_sub(1).and_then(|index| self.files.get(index));
        file.map_or_else(Default::default, |file| {
            let offset = file.layout.offset(token - file.first);
            (file.file.path().to_owned(), offset)
        })
    }

    /// Returns the path of the first file.
    pub(super) fn first_path(&self) -> &Path {
        self.files
            .first()
            .map_or(Path::new(""), |file| file.file.path())
    }
}

impl TokenFile {
    fn read(&self, range: Range<u64>, tokens: &mut Vec<u32>) -> Result<(), ReadProblem> {
        let NpyVector {
            size, big_endian, ..
        } = self.layout;
        // A window's, or what is compared at once.
        let mut bytes = vec![0; ((range.end - range.start) * size) as usize];
        self.file
            .read_at(self.layout.offset(range.start), &mut bytes)?;
        if size == 2 {
            let (numbers, _) = bytes.as_chunks::<2>();
            let read = if big_endian {
                u16::from_be_bytes
            } else {
                u16::from_le_bytes
            };
            tokens.extend(numbers.iter().map(|&number| u32::from(read(number))));
        } else {
            let (numbers, _) = bytes.as_chunks::<4>();
            let read = if big_endian {
                u32::from_be_bytes
            } else {
                u32::from_le_bytes
            };
            tokens.extend(numbers.iter().map(|&number| read(number)));
        }
        Ok(())
    }
}

/// Says where the tokens of a file are: after NumPy's header, or all of it.
fn layout(file: &WatchedFile, raw: TokenType) -> Result<NpyVector, DataError> {
    if let Some(vector) = NpyVector::of(file)? {
        return Ok(vector);
    }
    let (bytes, size) = (file.length(), raw.size());
    if !bytes.is_multiple_of(size) {
        return Err(TokensError::Uneven {
            file: file.path().to_owned(),
            bytes,
            size,
        }
        .into());
    }
    Ok(NpyVector {
        size,
        big_endian: false,
        start: 0,
        count: bytes / size,
    })
}
