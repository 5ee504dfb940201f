//! Loading of a text file and its division into parts.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::content::Text;
use super::dataset::{whole, windows};
use super::{TextConfig, TextError, TextPart, TextUnit, Vocabulary};
use crate::{Error, Splits};

/// Reads a text and divides it: the training part first, then validation, then test.
///
/// # Errors
///
/// If a file can't be read, or a part is shorter than a sample or has characters that do not occur in
/// the training part.
pub(crate) fn load(config: &TextConfig, base: &Path) -> Result<Splits, Error> {
    let context = at_least_one("context", config.context)?;
    let stride = at_least_one("stride", config.stride.unwrap_or(context))?;
    let whole_text = Text::read(&base.join(&config.file), config.unit)?;
    let total = whole_text.count(config.unit);
    let val = Source::of(config.val.as_ref(), "val", total)?;
    let test = Source::of(config.test.as_ref(), "test", total)?;
    let train_end = total.saturating_sub(val.taken() + test.taken());
    let val_end = train_end + val.taken();

    let train = whole_text.range(config.unit, 0, train_end);
    let vocabulary = Arc::new(match config.unit {
        TextUnit::Byte => Vocabulary::bytes(),
        TextUnit::Char => Vocabulary::of_characters(whole_text.characters(&train)),
    });
    let windows = |range: &Range<usize>, part, stride| {
        let tokens = whole_text.encode(&vocabulary, range)?;
        windows(&whole_text, tokens, part, &vocabulary, (context, stride))
    };
    let phase = |source: &Source<'_>, part, start, end| match source {
        Source::Nothing => Ok(None),
        Source::Tokens(_) => {
            let range = whole_text.range(config.unit, start, end);
            windows(&range, part, context).map(Some)
        }
        Source::File(file) => whole(&base.join(file), part, &vocabulary, context).map(Some),
    };
    Ok(Splits {
        train: windows(&train, "training's text", stride)?,
        val: phase(&val, "validation's text", train_end, val_end)?,
        test: phase(&test, "test's text", val_end, total)?,
    })
}

fn at_least_one(key: &'static str, found: usize) -> Result<usize, Error> {
    if found > 0 {
        return Ok(found);
    }
    Err(Error::Range {
        key,
        range: "at least 1",
        found: 0.0,
    })
}

/// Source of a phase's text.
enum Source<'a> {
    Nothing,
    /// Number of tokens of the training file.
    Tokens(usize),
    File(&'a Path),
}

impl Source<'_> {
    fn of<'a>(
        part: Option<&'a TextPart>,
        phase: &'static str,
        total: usize,
    ) -> Result<Source<'a>, Error> {
        let Some(part) = part else {
            return Ok(Source::Nothing);
        };
        match (part.fraction, &part.file) {
            (Some(fraction), None) if fraction > 0.0 && fraction < 1.0 => {
                Ok(Source::Tokens((total as f64 * fraction).round() as usize))
            }
            (Some(found), None) => Err(Error::SplitRange {
                phase,
                key: "fraction",
                range: "above 0 and below 1",
                found,
            }),
            (None, Some(file)) => Ok(Source::File(file)),
            _ => Err(TextError::PartForm { phase }.into()),
        }
    }

    fn taken(&self) -> usize {
        match self {
            Source::Tokens(count) => *count,
            Source::Nothing | Source::File(_) => 0,
        }
    }
}
