//! Losses of the last iterations, and their smoothed value.

use std::collections::VecDeque;

use sconce_plugin_api::prelude::*;

/// How the losses of several iterations are combined into one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Smoothing {
    /// The mean.
    #[default]
    Mean,
    /// The median: one spike does not move it.
    Median,
    /// The last loss only.
    Last,
}

/// Losses of the last iterations.
pub(crate) struct Window {
    losses: VecDeque<f64>,
    size: usize,
    /// Scratch space for the median, allocated once.
    sorted: Vec<f64>,
}

impl Window {
    /// Creates an empty window over `size` iterations, at least one.
    pub(crate) fn new(size: usize) -> Self {
        Window {
            // The configuration allows sizes far beyond the number of losses.
            losses: VecDeque::with_capacity(size.min(1024)),
            size,
            sorted: Vec::new(),
        }
    }

    /// Adds a loss; the oldest one is dropped if the window is full.
    pub(crate) fn push(&mut self, loss: f64) {
        if self.losses.len() >= self.size {
            self.losses.pop_front();
        }
        self.losses.push_back(loss);
    }

    /// Smoothed value; `None` before the first loss. A NaN makes the mean NaN until it has left the
    /// window; the median sorts it as the largest value.
    pub(crate) fn value(&mut self, smoothing: Smoothing) -> Option<f64> {
        let last = self.losses.back().copied()?;
        let count = self.losses.len();
        Some(match smoothing {
            Smoothing::Last => last,
            Smoothing::Mean => self.losses.iter().sum::<f64>() / count as f64,
            Smoothing::Median => {
                self.sorted.clear();
                self.sorted.extend(&self.losses);
                self.sorted.sort_by(f64::total_cmp);
                let at = |index: usize| self.sorted.get(index).copied().unwrap_or(last);
                f64::midpoint(at((count - 1) / 2), at(count / 2))
            }
        })
    }

    /// The bits of the losses, for a checkpoint: JSON has no infinity.
    pub(crate) fn save(&self) -> Vec<u64> {
        self.losses.iter().map(|loss| loss.to_bits()).collect()
    }

    /// Restores the losses from [`save`](Window::save).
    pub(crate) fn restore(&mut self, bits: &[u64]) {
        self.losses.clear();
        for &bits in bits {
            self.push(f64::from_bits(bits));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_losses_become_one() {
        let mut window = Window::new(3);
        assert_eq!(window.value(Smoothing::Mean), None);
        for (loss, mean, median) in [
            (3.0, 3.0, 3.0),
            (6.0, 4.5, 4.5),
            (0.0, 3.0, 3.0),
            (9.0, 5.0, 6.0),
            (f64::INFINITY, f64::INFINITY, 9.0),
        ] {
            window.push(loss);
            assert_eq!(window.value(Smoothing::Mean), Some(mean));
            assert_eq!(window.value(Smoothing::Median), Some(median));
            assert_eq!(window.value(Smoothing::Last), Some(loss));
        }
        let saved = window.save();
        let mut again = Window::new(3);
        again.restore(&saved);
        assert_eq!(again.save(), saved);
        assert_eq!(again.value(Smoothing::Median), Some(9.0));
    }
}
