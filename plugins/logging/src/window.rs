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
}

impl state::StateField for Window {
    /// The bits of the losses: JSON has no infinity.
    type Saved = Vec<u64>;

    fn save(&mut self) -> Result<impl Serialize> {
        let bits = self.losses.iter().map(|loss| loss.to_bits());
        Ok(bits.collect::<Vec<_>>())
    }

    fn restore(&mut self, bits: Vec<u64>) -> Result<()> {
        self.losses.clear();
        for bits in bits {
            self.push(f64::from_bits(bits));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::state::StateField;

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
        let saved = serde_json::to_string(&window.save().expect("saved")).expect("JSON");
        let mut again = Window::new(3);
        let read = serde_json::from_str(&saved).expect("its own");
        again.restore(read).expect("restored");
        assert_eq!(again.value(Smoothing::Median), Some(9.0));
    }
}
