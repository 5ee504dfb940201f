//! Features with the classes of their samples.

/// Features of some samples with their classes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Features {
    /// Row-major, (samples, `width`).
    pub(super) values: Vec<f32>,
    /// Features of a sample, at least one.
    pub(super) width: usize,
    /// Class of each sample, from 0.
    pub(super) classes: Vec<u32>,
}

impl Features {
    pub(super) fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }

    /// The fraction of samples whose class is the one that was found.
    pub(super) fn accuracy(&self, found: &[u32]) -> f64 {
        let pairs = self.classes.iter().zip(found);
        let right = pairs.filter(|(class, found)| class == found).count();
        right as f64 / self.classes.len() as f64
    }
}

/// The index of the largest value; of equal ones the first.
pub(super) fn largest(values: impl IntoIterator<Item = f64>) -> u32 {
    let mut best = (0, f64::NEG_INFINITY);
    for (index, value) in (0_u32..).zip(values) {
        if value > best.1 {
            best = (index, value);
        }
    }
    best.0
}
