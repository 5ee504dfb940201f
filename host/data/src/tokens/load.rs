//! Loading of token files and their division into parts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dataset::{TokenDataset, TokenRange};
use super::files::TokenFiles;
use super::tokenizer::Tokenizer;
use super::vocabulary_source::MOST;
use super::writing::index::{TOKENIZER, TokenIndex};
use super::{Documents, TokenType, TokensConfig, TokensPart, TokensTransform, VocabularySource};
use crate::dataset::fitted::Fitted;
use crate::error::{DataError, TokensError};
use crate::{ContentHash, Dataset};

/// Opens token files and divides them: the training part first, then validation, then test.
///
/// # Errors
///
/// If a file can't be read or has tokens of another vocabulary, or a part is shorter than a sample.
pub(crate) fn load(
    config: &TokensConfig,
    base: &Path,
    seed: u64,
) -> Result<Fitted<TokensTransform>, DataError> {
    load_from(Sources::new(config.dtype), config, base, seed)
}

fn load_from(
    mut sources: Sources,
    config: &TokensConfig,
    base: &Path,
    seed: u64,
) -> Result<Fitted<TokensTransform>, DataError> {
    let main = sources.add(base, &config.files, "data.files")?;
    let mut of_phase = |part: &Option<TokensPart>, phase| {
        let part = part.as_ref();
        part.map(|part| PartTokens::of(part, phase, base, &mut sources))
            .transpose()
    };
    let val = of_phase(&config.val, "val")?;
    let test = of_phase(&config.test, "test")?;
    let vocabulary = sources.vocabulary(config.vocabulary.as_ref(), base)?;
    let parts = Parts {
        context: config.context,
        vocabulary,
        end: config.end.or(sources.end),
        are_separate: config.documents == Documents::Separate,
    };
    parts.fitted(&main, (val, test), seed)
}

/// Opens a directory that `sconce tokenize` wrote, all of it as one part of this name.
pub(in crate::tokens) fn of_directory_range(
    directory: &Path,
) -> Result<(TokenRange, Option<u32>), DataError> {
    let mut sources = Sources::new(None);
    let files = sources.add(Path::new(""), &[directory.to_owned()], "data.files")?;
    let vocabulary = sources.vocabulary(None, Path::new(""))?;
    Ok((vocabulary.range(&files)?, sources.end))
}

/// Opens a directory with the tokens of a text, for training and for what its parts say. Not its files but the text is noted
/// as what was read.
pub(crate) fn of_directory(
    directory: &Path,
    context: usize,
    (val, test): (Option<TokensPart>, Option<TokensPart>),
    seed: u64,
) -> Result<Fitted<TokensTransform>, DataError> {
    let config = TokensConfig {
        files: vec![directory.to_owned()],
        dtype: None,
        vocabulary: None,
        context,
        end: None,
        documents: Documents::Joined,
        val,
        test,
    };
    let mut sources = Sources::new(None);
    sources.are_noted = false;
    load_from(sources, &config, Path::new(""), seed)
}

/// What the files of all parts have in common.
struct Sources {
    dtype: Option<TokenType>,
    /// Whether files are noted as what is read.
    are_noted: bool,
    /// The first directory, with the hash of its tokenizer.
    directory: Option<(PathBuf, ContentHash)>,
    end: Option<u32>,
}

impl Sources {
    fn new(dtype: Option<TokenType>) -> Sources {
        Sources {
            dtype,
            are_noted: true,
            directory: None,
            end: None,
        }
    }

    /// Opens the files of a list, and those of its directories.
    fn add(
        &mut self,
        base: &Path,
        paths: &[PathBuf],
        key: &'static str,
    ) -> Result<Arc<TokenFiles>, DataError> {
        let mut files = Vec::new();
        for path in paths {
            let path = base.join(path);
            match TokenIndex::read(&path) {
                Ok(Some(index)) => {
                    self.compare(&path, &index)?;
                    let of_index = index.files.iter();
                    files.extend(of_index.map(|file| (path.join(&file.file), index.dtype)));
                }
                Ok(None) if path.is_dir() => {
                    return Err(TokensError::Index {
                        file: path.join(super::writing::index::INDEX),
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
        };
        opened.map(Arc::new)
    }

    /// Checks that a directory has tokens of the same tokenizer as those before it.
    fn compare(&mut self, path: &Path, index: &TokenIndex) -> Result<(), TokensError> {
        match &self.directory {
            None => {
                self.directory = Some((path.to_owned(), index.tokenizer));
                self.end = index.end;
                Ok(())
            }
            Some((_, hash)) if *hash == index.tokenizer => Ok(()),
            Some((first, _)) => Err(TokensError::Mixed {
                first: first.clone(),
                file: path.to_owned(),
            }),
        }
    }

    /// The vocabulary of the manifest, or that of the directories.
    fn vocabulary(
        &self,
        source: Option<&VocabularySource>,
        base: &Path,
    ) -> Result<KnownVocabulary, DataError> {
        let tokenizer = match (source, &self.directory) {
            (Some(VocabularySource::Tokenizer(path)), _) => Some(base.join(path)),
            (_, Some((directory, _))) => Some(directory.join(TOKENIZER)),
            _ => None,
        };
        let tokenizer = tokenizer.map(|path| Tokenizer::open(&path)).transpose()?;
        if let (Some(tokenizer), Some((first, hash))) = (&tokenizer, &self.directory)
            && tokenizer.hash() != *hash
        {
            return Err(TokensError::Index {
                file: first.join(super::writing::index::INDEX),
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
struct KnownVocabulary {
    size: usize,
    tokenizer: Option<Arc<Tokenizer>>,
}

impl KnownVocabulary {
    /// All tokens of files, whose ends are compared with the vocabulary.
    fn range(&self, files: &Arc<TokenFiles>) -> Result<TokenRange, DataError> {
        files.compare(self.size)?;
        Ok(TokenRange {
            files: Arc::clone(files),
            range: 0..files.total(),
            vocabulary: self.size,
            tokenizer: self.tokenizer.clone(),
        })
    }
}

/// Where a phase's tokens are.
enum PartTokens {
    /// A fraction of the training's.
    Fraction(f64),
    Own(Arc<TokenFiles>),
}

impl PartTokens {
    fn of(
        part: &TokensPart,
        phase: &'static str,
        base: &Path,
        sources: &mut Sources,
    ) -> Result<PartTokens, DataError> {
        match (part.fraction, &part.files) {
            (Some(fraction), None) if fraction > 0.0 && fraction < 1.0 => {
                Ok(PartTokens::Fraction(fraction))
            }
            (Some(found), None) => Err(DataError::SplitRange {
                phase,
                key: "fraction",
                range: "above 0 and below 1",
                found,
            }),
            (None, Some(files)) => {
                let key = if phase == "val" {
                    "data.val.files"
                } else {
                    "data.test.files"
                };
                sources.add(base, files, key).map(PartTokens::Own)
            }
            _ => Err(TokensError::PartForm { phase }.into()),
        }
    }
}

/// What all parts have in common.
struct Parts {
    context: usize,
    vocabulary: KnownVocabulary,
    end: Option<u32>,
    /// Whether documents are kept apart.
    are_separate: bool,
}

impl Parts {
    /// Keeps documents apart, if that is wanted.
    fn apart(&self, windows: TokenDataset) -> Result<TokenDataset, DataError> {
        match self.end {
            _ if !self.are_separate => Ok(windows),
            Some(end) => Ok(windows.separated(end)),
            None => Err(TokensError::NoEnd.into()),
        }
    }

    fn fitted(
        self,
        main: &Arc<TokenFiles>,
        (val, test): (Option<PartTokens>, Option<PartTokens>),
        seed: u64,
    ) -> Result<Fitted<TokensTransform>, DataError> {
        if self.context == 0 {
            return Err(DataError::Range {
                key: "context",
                range: "at least 1",
                found: 0.0,
            });
        }
        let all = self.vocabulary.range(main)?;
        let total = main.total();
        let taken = |part: &Option<PartTokens>| match part {
            Some(PartTokens::Fraction(fraction)) => (total as f64 * fraction).round() as u64,
            _ => 0,
        };
        let train_end = total.saturating_sub(taken(&val).saturating_add(taken(&test)));
        let val_end = total.saturating_sub(taken(&test)).max(train_end);
        let windows = |range, part, seed| {
            let tokens = TokenRange {
                range,
                ..all.clone()
            };
            let windows = TokenDataset::new(tokens, self.context, part, seed)?;
            self.apart(windows)
        };
        let phase = |part, range, name| -> Result<Option<Arc<dyn Dataset>>, DataError> {
            let windows = match part {
                None => return Ok(None),
                Some(PartTokens::Fraction(_)) => windows(range, name, None)?,
                Some(PartTokens::Own(files)) => {
                    let tokens = self.vocabulary.range(&files)?;
                    self.apart(TokenDataset::new(tokens, self.context, name, None)?)?
                }
            };
            Ok(Some(Arc::new(windows)))
        };
        Ok(Fitted {
            train: Arc::new(windows(0..train_end, "training tokens", Some(seed))?),
            val: phase(val, train_end..val_end, "validation tokens")?,
            test: phase(test, val_end..total, "test tokens")?,
            learnt: TokensTransform::new(
                self.context,
                self.vocabulary.size,
                self.end,
                self.vocabulary.tokenizer.clone(),
            ),
        })
    }
}
