//! From a text file to the windows of its parts.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::dataset::Tokens;
use super::{TextConfig, TextDataset, TextError, TextPart, TextUnit, Vocabulary};
use crate::file::unpacked;
use crate::{Dataset, Error, Splits};

/// Reads a text and divides it: the training's part first, then the validation's, then the test's.
///
/// # Errors
///
/// Where a file can't be read, a part is shorter than a sample, or has characters that the
/// training's has not.
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

/// The windows of a whole file, one behind the other.
pub(super) fn whole(
    file: &Path,
    part: &'static str,
    vocabulary: &Arc<Vocabulary>,
    context: usize,
) -> Result<Arc<dyn Dataset>, Error> {
    let text = Text::read(file, vocabulary.unit())?;
    let tokens = text.encode(vocabulary, &(0..text.bytes.len()))?;
    windows(&text, tokens, part, vocabulary, (context, context))
}

fn windows(
    text: &Text,
    tokens: Tokens,
    part: &'static str,
    vocabulary: &Arc<Vocabulary>,
    (context, stride): (usize, usize),
) -> Result<Arc<dyn Dataset>, Error> {
    let found = tokens.len();
    let dataset = TextDataset::new(tokens, Arc::clone(vocabulary), context, stride);
    if dataset.is_empty() {
        return Err(TextError::Short {
            file: text.file.clone(),
            part,
            found,
            unit: vocabulary.unit(),
            context,
        }
        .into());
    }
    if u32::try_from(dataset.len()).is_err() {
        return Err(Error::TooMany(dataset.len() as u64));
    }
    Ok(Arc::new(dataset))
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

/// Where a phase's text comes from.
enum Source<'a> {
    Nothing,
    /// So many tokens of the training's file.
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

/// A file's content: UTF-8 where tokens are characters.
struct Text {
    file: std::path::PathBuf,
    bytes: Vec<u8>,
}

impl Text {
    fn read(file: &Path, unit: TextUnit) -> Result<Text, Error> {
        let bytes = unpacked(file)?;
        let text = Text {
            file: file.to_owned(),
            bytes,
        };
        if unit == TextUnit::Char
            && let Err(error) = std::str::from_utf8(&text.bytes)
        {
            let (line, column) = text.place(error.valid_up_to());
            let file = text.file;
            return Err(TextError::NotUtf8 { file, line, column }.into());
        }
        Ok(text)
    }

    /// How many tokens it has.
    fn count(&self, unit: TextUnit) -> usize {
        match unit {
            TextUnit::Byte => self.bytes.len(),
            TextUnit::Char => self.characters(&(0..self.bytes.len())).chars().count(),
        }
    }

    /// The bytes of the tokens from `start` to before `end`.
    fn range(&self, unit: TextUnit, start: usize, end: usize) -> Range<usize> {
        match unit {
            TextUnit::Byte => start..end,
            TextUnit::Char => {
                let whole = self.characters(&(0..self.bytes.len()));
                let at = |count| {
                    let mut places = whole.char_indices().map(|(place, _)| place);
                    places.nth(count).unwrap_or(whole.len())
                };
                at(start)..at(end)
            }
        }
    }

    /// Text of a file that was found to be UTF-8.
    fn characters(&self, range: &Range<usize>) -> &str {
        let bytes = self.bytes.get(range.clone()).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    fn encode(&self, vocabulary: &Vocabulary, range: &Range<usize>) -> Result<Tokens, Error> {
        if vocabulary.unit() == TextUnit::Byte {
            let bytes = self.bytes.get(range.clone()).unwrap_or_default();
            return Ok(Tokens::Narrow(bytes.to_vec()));
        }
        let tokens = vocabulary.encode(self.characters(range));
        let tokens = tokens.map_err(|unknown| {
            let (line, column) = self.place(range.start + unknown.position);
            TextError::Unknown {
                file: self.file.clone(),
                line,
                column,
                character: unknown.character,
            }
        })?;
        Ok(Tokens::new(tokens, vocabulary.len()))
    }

    /// Line and column of a byte, both from 1; columns count characters.
    fn place(&self, position: usize) -> (usize, usize) {
        let before = self.bytes.get(..position).unwrap_or_default();
        let mut lines = before.rsplit(|&byte| byte == b'\n');
        let last = lines.next().unwrap_or_default();
        let is_start = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
        (lines.count() + 1, last.iter().filter(is_start).count() + 1)
    }
}
