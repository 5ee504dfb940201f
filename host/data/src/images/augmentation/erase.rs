//! Random erasing.

use sconce_ops::random::Stream;

use super::{Canvas, EraseConfig};

/// Number of rectangles drawn until one fits.
const TRIES: usize = 10;

impl Canvas<'_> {
    /// Makes a random rectangle black, with the configured probability. Does nothing if no rectangle of several fits.
    pub(super) fn erase(&mut self, config: EraseConfig, stream: &mut Stream) {
        let [_, height, width] = self.shape;
        if stream.unit() >= config.probability {
            return;
        }
        let [small, large] = config.area;
        let [flat, tall] = config.aspect.map(libm::log);
        for _ in 0..TRIES {
            let area = stream.uniform(small, large) * (height * width) as f64;
            let aspect = libm::exp(stream.uniform(flat, tall));
            let rows = libm::round(libm::sqrt(area * aspect)) as usize;
            let columns = libm::round(libm::sqrt(area / aspect)) as usize;
            if rows < height && columns < width {
                let top = stream.below((height - rows + 1) as u64) as usize;
                let left = stream.below((width - columns + 1) as u64) as usize;
                self.blacken((top, rows), (left, columns));
                return;
            }
        }
    }

    fn blacken(&mut self, (top, rows): (usize, usize), (left, columns): (usize, usize)) {
        let (plane, width) = (self.plane(), self.shape[2].max(1));
        for channel in self.pixels.chunks_exact_mut(plane) {
            for row in channel.chunks_exact_mut(width).skip(top).take(rows) {
                let erased = row.iter_mut().skip(left).take(columns);
                erased.for_each(|pixel| *pixel = 0);
            }
        }
    }
}
