//! Loading of a text whose tokens a tokenizer makes.

use std::path::{Path, PathBuf};

use super::{TextConfig, TextPart};
use crate::MemoryUse;
use crate::dataset::fitted::Fitted;
use crate::error::{DataError, TextError};
use crate::tokens::{self, TokensPart, TokensTransform};
use crate::vocabulary::TextUnit;

/// Makes tokens of a text, or takes those that were made of it before, and divides them.
///
/// # Errors
///
/// As those of [`tokens::load`], and if a key is set that is about tokens of another kind.
pub(crate) fn load_tokens(
    config: &TextConfig,
    tokenizer: &Path,
    base: &Path,
    seed: u64,
) -> Result<Fitted<TokensTransform>, DataError> {
    let foreign = [
        ("unit", config.unit != TextUnit::default()),
        ("stride", config.stride.is_some()),
        ("memory", config.memory == MemoryUse::Whole),
    ];
    if let Some((key, _)) = foreign.into_iter().find(|(_, is_set)| *is_set) {
        return Err(TextError::WithTokenizer { key }.into());
    }
    let tokenizer = base.join(tokenizer);
    let made = |file: &PathBuf| tokens::tokens_of_text(&base.join(file), &tokenizer);
    let part = |part: &Option<TextPart>| {
        let part = part.as_ref().map(|part| {
            let files = part.file.as_ref().map(made).transpose()?;
            Ok::<_, DataError>(TokensPart {
                fraction: part.fraction,
                files: files.map(|file| vec![file]),
            })
        });
        part.transpose()
    };
    let directory = made(&config.file)?;
    let parts = (part(&config.val)?, part(&config.test)?);
    tokens::of_directory(&directory, config.context, parts, seed)
}
