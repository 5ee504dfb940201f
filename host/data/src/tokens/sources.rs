//! Where tokens are: files and directories of one vocabulary, opened in order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dataset::TokenRange;
use super::files::TokenFiles;
use super::tokenizer::Tokenizer;
use super::vocabulary_source::MOST;
use super::writing::index::{INDEX, TOKENIZER, TokenIndex};
use super::{TokenType, VocabularySource};
use crate::ContentHash;
use crate::error::{DataError, TokensError};

/// Opens a directory that `sconce tokenize` wrote, all of it as one part of this name.
pub(super) fn of_directory_range(directory: &Path) -> Result<(TokenRange, Option<u32>), DataError> {
    let mut sources = Sources::new(None);
    let files = sources.add(Path::new(""), &[directory.to_owned()], "data.files")?;
    let vocabulary = sources.vocabulary(None, Path::new(""))?;
    Ok((vocabulary.range(&files)?, sources.end))
}

/// What the files of all parts have in common.
pub(super) struct Sources {
    dtype: Option<TokenType>,
    /// Whether files are noted as what is read.
    pub(super) are_noted: bool,
    /// The first directory, with the hash of its tokenizer and its vocabulary.
    directory: Option<(PathBuf, ContentHash, usize)>,
    pub(super) end: Option<u32>,
}

impl Sources {
    pub(super) fn new(dtype: Option<TokenType>) -> Sources {
        Sources {
            dtype,
            are_noted: true,
            directory: None,
            end: None,
        }
    }

    /// Opens the files of a list, and those of its directories.
    pub(super) fn add(
        &mut self,
        base: &Path,
        paths: &[PathBuf],
        key: &'static str,
    ) -> Result<Arc<TokenFiles>, DataError> {
        let mut files = Vec::new();
        let mut indexed = Vec::new();
        for path in paths {
            let path = base.join(path);
            match TokenIndex::read(&path) {
                Ok(Some(index)) => {
                    self.compare(&path, &index)?;
                    for file in &index.files {
                        indexed.push((files.len(), file.tokens, path.clone()));
                        files.push((path.join(&file.file), index.dtype));
                    }
                }
                Ok(None) if path.is_dir() => {
                    return Err(TokensError::Index {
                        file: path.join(INDEX),
                        problem: "there is none, so `sconce tokenize` has not written this directory, or not ended".to_owned(),
                    }
                    .into());
                }
                Err(error) if path.is_dir() => return Err(error),
                // A file, which has nothing below it.
                Ok(None) | Err(_) => files.push((path, self.dtype.unwrap_or(TokenType::U16))),
            }
        }
        if files.is_empty() {
            return Err(TokensError::NoFiles(key).into());
        }
        let opened = if self.are_noted {
            TokenFiles::open(&files)
        } else {
            TokenFiles::open_unnoted(&files)
        }?;
        for (place, tokens, directory) in indexed {
            if let Some((file, found)) = opened.counted(place)
                && found != tokens
            {
                return Err(TokensError::Index {
                    file: directory.join(INDEX),
                    problem: format!("`{}` has {found} tokens, not {tokens}", file.display()),
                }
                .into());
            }
        }
        Ok(Arc::new(opened))
    }

    /// Checks that a directory has tokens of the same tokenizer as those before it.
    fn compare(&mut self, path: &Path, index: &TokenIndex) -> Result<(), TokensError> {
        if let Some(end) = index.end
            && end as usize >= index.vocabulary
        {
            return Err(TokensError::Index {
                file: path.join(INDEX),
                problem: format!(
                    "its `end`, {end}, is not one of {} tokens",
                    index.vocabulary
                ),
            });
        }
        match &self.directory {
            None => {
                self.directory = Some((path.to_owned(), index.tokenizer, index.vocabulary));
                self.end = index.end;
                Ok(())
            }
            Some((_, hash, _)) if *hash == index.tokenizer => Ok(()),
            Some((first, ..)) => Err(TokensError::Mixed {
                first: first.clone(),
                file: path.to_owned(),
            }),
        }
    }

    /// The vocabulary of the manifest, or that of the directories.
    pub(super) fn vocabulary(
        &self,
        source: Option<&VocabularySource>,
        base: &Path,
    ) -> Result<KnownVocabulary, DataError> {
        let tokenizer = match (source, &self.directory) {
            (Some(VocabularySource::Tokenizer(path)), _) => Some(base.join(path)),
            (_, Some((directory, ..))) => Some(directory.join(TOKENIZER)),
            _ => None,
        };
        let tokenizer = tokenizer.map(|path| Tokenizer::open(&path)).transpose()?;
        if let (Some(tokenizer), Some((first, hash, vocabulary))) = (&tokenizer, &self.directory)
            && (tokenizer.hash(), tokenizer.vocabulary()) != (*hash, *vocabulary)
        {
            return Err(TokensError::Index {
                file: first.join(INDEX),
                problem: "its tokens are of another tokenizer than this".to_owned(),
            }
            .into());
        }
        let least = tokenizer.as_ref().map_or(1, Tokenizer::vocabulary);
        let size = match source {
            Some(VocabularySource::Size(found)) if !(least..=MOST).contains(found) => {
                return Err(TokensError::Vocabulary {
                    found: *found,
                    least,
                    most: MOST,
                }
                .into());
            }
            Some(VocabularySource::Size(size)) => *size,
            _ if tokenizer.is_some() => least,
            _ => return Err(TokensError::NoVocabulary.into()),
        };
        Ok(KnownVocabulary {
            size,
            tokenizer: tokenizer.map(Arc::new),
        })
    }
}

/// A vocabulary, and its tokenizer if that is known.
pub(super) struct KnownVocabulary {
    pub(super) size: usize,
    pub(super) tokenizer: Option<Arc<Tokenizer>>,
}

impl KnownVocabulary {
    /// All tokens of files, whose ends are compared with the vocabulary.
    pub(super) fn range(&self, files: &Arc<TokenFiles>) -> Result<TokenRange, DataError> {
        files.compare(self.size)?;
        Ok(TokenRange {
            files: Arc::clone(files),
            range: 0..files.total(),
            vocabulary: self.size,
            tokenizer: self.tokenizer.clone(),
        })
    }
}
