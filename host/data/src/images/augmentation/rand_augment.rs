//! `RandAugment`: operations chosen at random, all of the same strength.

use sconce_ops::random::Stream;

use super::warp::rotation;
use super::{Canvas, RandAugmentConfig};

/// Largest magnitude.
const MOST: u32 = 30;

/// Number of operations to choose from.
const OPERATIONS: u64 = 14;

impl Canvas<'_> {
    /// Applies `operations` random operations. Each takes two draws: which one, and its direction.
    pub(super) fn rand_augment(&mut self, config: RandAugmentConfig, stream: &mut Stream) {
        for _ in 0..config.operations {
            let operation = stream.below(OPERATIONS);
            let sign = if stream.below(2) == 1 { -1.0 } else { 1.0 };
            self.operate(operation, config.magnitude.min(MOST), sign);
        }
    }

    /// Applies an operation; those beyond the last do nothing. The strongest of each are torchvision's.
    fn operate(&mut self, operation: u64, magnitude: u32, sign: f64) {
        let [_, height, width] = self.shape;
        let fraction = f64::from(magnitude) / f64::from(MOST);
        let signed = |most: f64| sign * fraction * most;
        let farthest = |side: usize| 150.0 / 331.0 * side as f64;
        let factor = 1.0 + signed(0.9);
        match operation {
            0 => self.warp(&[[1.0, signed(0.3), 0.0], [0.0, 1.0, 0.0]]),
            1 => self.warp(&[[1.0, 0.0, 0.0], [signed(0.3), 1.0, 0.0]]),
            2 => self.warp(&[[1.0, 0.0, signed(farthest(width))], [0.0, 1.0, 0.0]]),
            3 => self.warp(&[[1.0, 0.0, 0.0], [0.0, 1.0, signed(farthest(height))]]),
            4 => self.warp(&rotation(signed(30.0))),
            5 => self.brighten(factor),
            6 => self.saturate(factor),
            7 => self.contrast(factor),
            8 => self.sharpen(factor),
            9 => self.posterise(8 - (4 * magnitude + MOST / 2) / MOST),
            10 => self.solarise(255.0 * (1.0 - fraction)),
            11 => self.autocontrast(),
            12 => self.equalise(),
            _ => {}
        }
    }
}
