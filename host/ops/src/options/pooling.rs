//! Windows of a pooling, and what is taken of them.

/// How a window is reduced to one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Its largest element; the gradient goes to the first of equal ones. A NaN wins.
    Max,
    /// The mean of its elements.
    Mean,
}

/// Windows along one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Start and end of each, inside the input.
    pub(crate) ranges: Vec<(usize, usize)>,
    /// Size of each, including the padding, which counts as zeros in a mean.
    pub(crate) sizes: Vec<usize>,
}

impl Windows {
    /// Windows of `size` elements, `stride` apart, over `length` elements with `padding` on both sides.
    ///
    /// There are ⌊(length + 2 · padding − size) / stride⌋ + 1 of them, as in PyTorch; `None` if there is no room for
    /// one.
    pub fn sliding(length: usize, size: usize, stride: usize, padding: usize) -> Option<Windows> {
        let room = (length + 2 * padding).checked_sub(size)?;
        let count = room.checked_div(stride)? + 1;
        let ranges = (0..count).map(|index| {
            let start = index * stride;
            let end = start + size;
            let inside = |position: usize| position.saturating_sub(padding).min(length);
            (inside(start), inside(end))
        });
        Some(Windows {
            ranges: ranges.collect(),
            sizes: vec![size; count],
        })
    }

    /// `count` windows that cover `length` elements, as in PyTorch's adaptive pooling.
    ///
    /// The i-th goes from ⌊i · length / count⌋ to ⌈(i + 1) · length / count⌉.
    pub fn adaptive(length: usize, count: usize) -> Windows {
        let range = |index: usize| {
            let end = ((index + 1) * length).div_ceil(count.max(1));
            (index * length / count.max(1), end)
        };
        let ranges: Vec<_> = (0..count).map(range).collect();
        Windows {
            sizes: ranges.iter().map(|(start, end)| end - start).collect(),
            ranges,
        }
    }

    /// Start, end and size with padding of each window.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let spans = self.ranges.iter().zip(&self.sizes);
        spans.map(|((start, end), size)| (*start, *end, *size))
    }

    /// Number of windows.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }
}
