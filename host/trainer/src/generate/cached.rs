//! Scores of the next token of texts, computed from their last tokens and what is kept of those before.

use candle_core::{Result, Tensor};

use super::{Generator, scores_at};
use crate::nn::{KeyValueCache, Pass};

/// Keys and values of the texts' tokens, and which these were.
#[derive(Default)]
pub(super) struct Cached {
    /// None before the first texts.
    cache: Option<KeyValueCache>,
    /// The tokens of each text that the model has seen.
    seen: Vec<Vec<u32>>,
}

impl Cached {
    /// Scores of the token after each row.
    pub(super) fn scores(
        &mut self,
        generator: &Generator<'_>,
        rows: &[&[u32]],
    ) -> Result<Vec<Vec<f32>>> {
        let windows: Vec<&[u32]> = rows.iter().map(|row| generator.window(row)).collect();
        let newest: Option<Vec<u32>> = if self.seen.len() == windows.len() {
            self.seen
                .iter()
                .zip(&windows)
                .map(|(seen, window)| newest(seen, window))
                .collect()
        } else {
            None
        };
        let outputs = match (newest, &mut self.cache) {
            (Some(newest), Some(cache)) => {
                let inputs = Tensor::from_vec(newest, (rows.len(), 1), generator.device)?;
                forward(generator, &inputs, cache)?
            }
            _ => self.begin(generator, &windows)?,
        };
        self.seen = windows.iter().map(|window| window.to_vec()).collect();
        let last = outputs.dim(1)?.saturating_sub(1);
        (0..rows.len())
            .map(|row| scores_at(&outputs, row, last))
            .collect()
    }

    /// Has the model see all tokens of the windows, which end together: shorter ones have padding in front.
    fn begin(&mut self, generator: &Generator<'_>, windows: &[&[u32]]) -> Result<Tensor> {
        let longest = windows
            .iter()
            .map(|window| window.len())
            .max()
            .unwrap_or_default();
        let padding: Vec<usize> = windows
            .iter()
            .map(|window| longest - window.len())
            .collect();
        let mut tokens = Vec::with_capacity(longest * windows.len());
        for (window, &padding) in windows.iter().zip(&padding) {
            tokens.extend(std::iter::repeat_n(0, padding));
            tokens.extend_from_slice(window);
        }
        let inputs = Tensor::from_vec(tokens, (windows.len(), longest), generator.device)?;
        let cache = KeyValueCache::padded(&padding, generator.text.context());
        forward(generator, &inputs, self.cache.insert(cache))
    }
}

/// Outputs for further tokens, at least those of the last position. The cache gets their keys and values.
fn forward(
    generator: &Generator<'_>,
    tokens: &Tensor,
    cache: &mut KeyValueCache,
) -> Result<Tensor> {
    let mut pass = Pass::evaluation().caching(cache).for_last_position();
    Ok(generator.model.forward(tokens, &mut pass)?.detach())
}

/// The token that a window has after those that were seen; none if it is another window.
fn newest(seen: &[u32], window: &[u32]) -> Option<u32> {
    match window.strip_prefix(seen)? {
        [newest] => Some(*newest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::newest;

    #[test]
    fn a_window_that_goes_on_has_one_more_token() {
        assert_eq!(newest(&[1, 2], &[1, 2, 3]), Some(3));
        assert_eq!(newest(&[1, 2], &[2, 3]), None);
        assert_eq!(newest(&[], &[2, 3]), None);
    }
}
