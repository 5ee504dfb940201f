//! Loading of a text file and its division into parts.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::content::Text;
use super::dataset::{whole, windows};
use super::{TextConfig, TextPart, TextTransform};
use crate::dataset::fitted::Fitted;
use crate::error::{DataError, TextError};

/// Reads a text and divides it: the training part first, then validation, then test.
///
/// # Errors
///
/// If a file can't be read, or a part is shorter than a sample or has characters that do not occur in
/// the training part.
pub(crate) fn load(config: &TextConfig, base: &Path) -> Result<Fitted<TextTransform>, DataError> {
    let context = at_least_one("context", config.context)?;
    let stride = at_least_one("stride", config.stride.unwrap_or(context))?;
    let whole_text = Text::read(&base.join(&config.file), config.unit, config.memory)?;
    let total = whole_text.count();
    let val = TextSource::of(config.val.as_ref(), "val", total)?;
    let test = TextSource::of(config.test.as_ref(), "test", total)?;
    let train_end = total.saturating_sub(val.taken() + test.taken());
    let val_end = train_end + val.taken();

    let train = 0..train_end;
    let vocabulary = Arc::new(whole_text.vocabulary(&train)?);
    let windows = |range: &Range<usize>, part, stride| {
        let tokens = whole_text.encode(&vocabulary, range)?;
        windows(&whole_text, tokens, part, &vocabulary, (context, stride))
    };
    let phase = |source: &TextSource<'_>, part, start, end| match source {
        TextSource::Nothing => Ok(None),
        TextSource::Tokens(_) => windows(&(start..end), part, context).map(Some),
        TextSource::File(file) => {
            let file = base.join(file);
            whole(&file, part, &vocabulary, context, config.memory).map(Some)
        }
    };
    Ok(Fitted {
        train: windows(&train, "training's text", stride)?,
        val: phase(&val, "validation's text", train_end, val_end)?,
        test: phase(&test, "test's text", val_end, total)?,
        learnt: TextTransform::new(Arc::clone(&vocabulary), context),
    })
}

fn at_least_one(key: &'static str, found: usize) -> Result<usize, DataError> {
    if found > 0 {
        return Ok(found);
    }
    Err(DataError::Range {
        key,
        range: "at least 1",
        found: 0.0,
    })
}

/// Source of a phase's text.
enum TextSource<'a> {
    Nothing,
    /// Number of tokens of the training file.
    Tokens(usize),
    File(&'a Path),
}

impl TextSource<'_> {
    fn of<'a>(
        part: Option<&'a TextPart>,
        phase: &'static str,
        total: usize,
    ) -> Result<TextSource<'a>, DataError> {
        let Some(part) = part else {
            return Ok(TextSource::Nothing);
        };
        match (part.fraction, &part.file) {
            (Some(fraction), None) if fraction > 0.0 && fraction < 1.0 => Ok(TextSource::Tokens(
                (total as f64 * fraction).round() as usize,
            )),
            (Some(found), None) => Err(DataError::SplitRange {
                phase,
                key: "fraction",
                range: "above 0 and below 1",
                found,
            }),
            (None, Some(file)) => Ok(TextSource::File(file)),
            _ => Err(TextError::PartForm { phase }.into()),
        }
    }

    fn taken(&self) -> usize {
        match self {
            TextSource::Tokens(count) => *count,
            TextSource::Nothing | TextSource::File(_) => 0,
        }
    }
}
