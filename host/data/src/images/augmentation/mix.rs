//! Two images of a batch as one: mixup and `CutMix`.

use sconce_ops::random::Stream;

use super::{CutmixConfig, MixupConfig};

/// Which mixtures there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mix {
    pub(super) mixup: Option<MixupConfig>,
    pub(super) cutmix: Option<CutmixConfig>,
}

/// The mixture of a batch.
enum Mixture {
    /// Weight of an image's own pixels.
    Average(f64),
    /// Fraction of the area that is taken from the other image.
    Cut(f64),
}

impl Mix {
    /// Mixes `count` images with each other, in place; returns the other of each, and the share of its own. None if images
    /// aren't mixed.
    pub(super) fn apply(
        self,
        stream: &mut Stream,
        inputs: &mut [f32],
        count: usize,
        shape: [usize; 3],
    ) -> Option<(Vec<u32>, f64)> {
        let is_average = match (self.mixup, self.cutmix) {
            (None, None) => return None,
            (Some(_), Some(_)) => stream.unit() < 0.5,
            (mixup, _) => mixup.is_some(),
        };
        let mixture = if is_average {
            average(self.mixup.unwrap_or_default(), stream)
        } else {
            cut(self.cutmix.unwrap_or_default(), stream)
        };
        let partners = stream.permutation(count);
        let size = shape.iter().product::<usize>().max(1);
        let originals = inputs.to_vec();
        let others = partners.iter().map(|&partner| {
            let start = partner as usize * size;
            originals.get(start..start + size).unwrap_or_default()
        });
        let pairs = inputs.chunks_exact_mut(size).zip(others);
        let kept = match mixture {
            Mixture::Average(kept) => {
                let (own, other) = (kept as f32, (1.0 - kept) as f32);
                for (image, partner) in pairs {
                    for (pixel, from) in image.iter_mut().zip(partner) {
                        *pixel = own * *pixel + other * from;
                    }
                }
                kept
            }
            Mixture::Cut(area) => {
                let [_, height, width] = shape;
                let hole = Hole::draw(area, height, width, stream);
                for (image, partner) in pairs {
                    hole.fill(image, partner, height, width);
                }
                hole.rest(height, width)
            }
        };
        Some((partners, kept))
    }
}

/// The larger weight is an image's own, so that its target is the one that metrics compare with: as pairs are in random
/// order, that changes nothing in the distribution of mixtures.
fn average(MixupConfig { alpha }: MixupConfig, stream: &mut Stream) -> Mixture {
    let weight = beta(alpha, stream);
    Mixture::Average(weight.max(1.0 - weight))
}

fn cut(CutmixConfig { alpha }: CutmixConfig, stream: &mut Stream) -> Mixture {
    Mixture::Cut(1.0 - beta(alpha, stream))
}

/// A rectangle that is filled from another image.
struct Hole {
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
}

impl Hole {
    /// A rectangle of the image's aspect ratio around a random pixel; what is outside of the image is cut off.
    fn draw(area: f64, height: usize, width: usize, stream: &mut Stream) -> Hole {
        let scale = area.clamp(0.0, 1.0).sqrt();
        let mut side = |length: usize| {
            let half = (scale * length as f64 / 2.0) as usize;
            let centre = stream.below(length as u64) as usize;
            centre.saturating_sub(half)..(centre + half).min(length)
        };
        Hole {
            rows: side(height),
            columns: side(width),
        }
    }

    fn fill(&self, image: &mut [f32], from: &[f32], height: usize, width: usize) {
        let plane = (height * width).max(1);
        for (image, from) in image.chunks_exact_mut(plane).zip(from.chunks_exact(plane)) {
            for row in self.rows.clone() {
                let cells = row * width + self.columns.start..row * width + self.columns.end;
                if let (Some(into), Some(from)) = (image.get_mut(cells.clone()), from.get(cells)) {
                    into.copy_from_slice(from);
                }
            }
        }
    }

    /// Share of the image that stays.
    fn rest(&self, height: usize, width: usize) -> f64 {
        let area = self.rows.len() * self.columns.len();
        1.0 - area as f64 / (height * width).max(1) as f64
    }
}

/// A sample of the beta distribution whose two parameters are `alpha`: of two samples of a gamma distribution, the share of
/// the first.
fn beta(alpha: f64, stream: &mut Stream) -> f64 {
    let [first, second] = [log_gamma(alpha, stream), log_gamma(alpha, stream)];
    // Of the logarithms, since small parameters give numbers that are 0 in any floating-point type.
    1.0 / (1.0 + libm::exp(second - first))
}

/// The logarithm of a sample of the gamma distribution, by the method of Marsaglia and Tsang (2000).
fn log_gamma(alpha: f64, stream: &mut Stream) -> f64 {
    // For parameters below 1 as they say: a sample for the parameter increased by 1, times U^(1/α).
    let (shape, log_boost) = if alpha < 1.0 {
        (alpha + 1.0, libm::log(1.0 - stream.unit()) / alpha)
    } else {
        (alpha, 0.0)
    };
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = stream.normal();
        let root = 1.0 + c * normal;
        if root <= 0.0 {
            continue;
        }
        let (v, log_v) = (root.powi(3), 3.0 * libm::log(root));
        // Above 0, whose logarithm would not be a number.
        let log_unit = libm::log(1.0 - stream.unit());
        if log_unit < 0.5 * normal * normal + d - d * v + d * log_v {
            return libm::log(d) + log_v + log_boost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_ops::random;

    /// Mean ½ and variance 1 / (4 (2 α + 1)), and shares from 0 to 1 also where the samples themselves are 0.
    #[test]
    fn weights_have_the_beta_distribution() {
        for alpha in [0.01, 0.2, 1.0, 4.0, 100.0] {
            let mut stream = random::stream(1, "test", 0, 0);
            let drawn: Vec<f64> = (0..20_000).map(|_| beta(alpha, &mut stream)).collect();
            assert!(drawn.iter().all(|weight| (0.0..=1.0).contains(weight)));
            let mean = drawn.iter().sum::<f64>() / 20_000.0;
            let squares: f64 = drawn.iter().map(|weight| (weight - mean).powi(2)).sum();
            let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            assert!((mean - 0.5).abs() < 0.015, "{alpha}: {mean}");
            let variance = squares / 20_000.0;
            assert!(
                (variance / expected - 1.0).abs() < 0.05,
                "{alpha}: {variance} {expected}"
            );
        }
    }

    #[test]
    fn a_mixture_is_the_average_or_the_rectangle() {
        let shape = [2, 6, 8];
        let size = 2 * 6 * 8;
        let images: Vec<f32> = (0..5_u8)
            .flat_map(|image| std::iter::repeat_n(f32::from(image), size))
            .collect();
        let mixup = Some(MixupConfig { alpha: 1.0 });
        let cutmix = Some(CutmixConfig { alpha: 1.0 });
        let [mut averages, mut cuts] = [0, 0];
        for batch in 0..200 {
            let mut inputs = images.clone();
            let mut stream = random::stream(1, "test", 0, batch);
            let mix = Mix { mixup, cutmix };
            let (partners, kept) = mix
                .apply(&mut stream, &mut inputs, 5, shape)
                .expect("mixed");
            assert!((0.0..=1.0).contains(&kept));
            let pairs: Vec<(f32, f32)> = (0_u8..)
                .map(f32::from)
                .zip(partners.iter().map(|&p| p as f32))
                .collect();
            let is_cut = inputs
                .chunks(size)
                .zip(&pairs)
                .all(|(image, (own, other))| {
                    image.iter().all(|pixel| {
                        [own, other]
                            .map(|of| of.to_bits())
                            .contains(&pixel.to_bits())
                    })
                });
            for (image, (own, other)) in inputs.chunks(size).zip(pairs) {
                // The mean is that of the shares in either case, in both channels.
                for plane in image.chunks(48) {
                    let mean = plane.iter().sum::<f32>() / 48.0;
                    let expected = kept as f32 * own + (1.0 - kept as f32) * other;
                    assert!((mean - expected).abs() < 1e-5, "{mean} {expected}");
                }
            }
            if is_cut { cuts += 1 } else { averages += 1 }
        }
        assert!(averages > 60 && cuts > 60, "{averages} {cuts}");
        let none = Mix {
            mixup: None,
            cutmix: None,
        };
        let mut stream = random::stream(1, "test", 0, 0);
        assert!(
            none.apply(&mut stream, &mut images.clone(), 5, shape)
                .is_none()
        );
    }
}
