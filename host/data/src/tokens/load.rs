//! Loading of token files and their division into parts.

use std::path::Path;
use std::sync::Arc;

use super::dataset::{TokenDataset, TokenRange};
use super::files::TokenFiles;
use super::sources::{KnownVocabulary, Sources};
use super::{Documents, TokensConfig, TokensPart, TokensTransform};
use crate::Dataset;
use crate::dataset::fitted::Fitted;
use crate::error::{DataError, TokensError};

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
            )
            .separated(self.are_separate),
        })
    }
}
