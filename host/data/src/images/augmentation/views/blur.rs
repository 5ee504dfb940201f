//! Gaussian blur.

use sconce_ops::random::Stream;

use super::super::Canvas;
use super::BlurConfig;

impl Canvas<'_> {
    /// Blurs the image by a random width, with the configured probability.
    pub(super) fn random_blur(&mut self, config: BlurConfig, stream: &mut Stream) {
        let is_blurred = stream.unit() < config.probability;
        let [sharp, soft] = config.sigma;
        let sigma = stream.uniform(sharp, soft);
        if is_blurred {
            self.blur(sigma);
        }
    }

    /// Blurs the image by a normal distribution, cut off at three standard deviations; what is outside has the colour of the
    /// nearest pixel.
    pub(super) fn blur(&mut self, sigma: f64) {
        let [_, height, width] = self.shape;
        let weights = weights(sigma);
        let mut plane: Vec<f32> = Vec::with_capacity(height * width);
        for channel in self.pixels.chunks_exact_mut((height * width).max(1)) {
            plane.clear();
            plane.extend(channel.iter().map(|&pixel| f32::from(pixel)));
            let turned = along_rows(&plane, width, &weights);
            let blurred = along_rows(&turned, height, &weights);
            for (pixel, value) in channel.iter_mut().zip(blurred) {
                *pixel = (value + 0.5) as u8;
            }
        }
    }
}

/// The weights of a pixel and of those on one side of it; with those on the other side their sum is 1.
fn weights(sigma: f64) -> Vec<f32> {
    let reach = libm::ceil(3.0 * sigma).max(1.0) as usize;
    let of = |distance: usize| libm::exp(-0.5 * (distance as f64 / sigma).powi(2));
    let sum: f64 = (1..=reach).map(|distance| 2.0 * of(distance)).sum::<f64>() + 1.0;
    (0..=reach)
        .map(|distance| (of(distance) / sum) as f32)
        .collect()
}

/// Blurs each row of a plane, and returns its transpose.
fn along_rows(plane: &[f32], width: usize, weights: &[f32]) -> Vec<f32> {
    let height = plane.len() / width.max(1);
    let mut turned = vec![0.0; plane.len()];
    for (y, row) in plane.chunks_exact(width.max(1)).enumerate() {
        let at = |x: usize| row.get(x.min(width - 1)).copied().unwrap_or_default();
        let column = turned.iter_mut().skip(y).step_by(height.max(1));
        for (x, value) in column.enumerate() {
            let sides = (1_usize..).zip(weights.iter().skip(1));
            let of_sides = sides.map(|(distance, weight)| {
                weight * (at(x.saturating_sub(distance)) + at(x + distance))
            });
            *value = of_sides.sum::<f32>() + at(x) * weights.first().copied().unwrap_or(1.0);
        }
    }
    turned
}
