//! Iteration over a tensor's elements in row-major order, for any strides.

use std::marker::PhantomData;

use super::{Element, Tensor};

/// Iterator over a tensor's elements in row-major order.
pub struct Elements<'view, T> {
    tensor: Tensor<'view>,
    /// Number of elements left.
    left: usize,
    /// Number of elements, if they are adjacent: the next one's offset then needs no indices.
    adjacent: Option<usize>,
    /// Index of the next element in each dimension, last dimension first; unused if they are adjacent.
    index: [usize; MOST_DIMENSIONS],
    element: PhantomData<T>,
}

/// Largest supported number of dimensions, more than any layer produces; tensors with more are refused.
pub(crate) const MOST_DIMENSIONS: usize = 12;

impl<'view, T: Element> Elements<'view, T> {
    pub(super) fn new(tensor: Tensor<'view>) -> Self {
        let length = tensor.len();
        Elements {
            left: length,
            adjacent: tensor.is_contiguous().then_some(length),
            tensor,
            index: [0; MOST_DIMENSIONS],
            element: PhantomData,
        }
    }

    /// Offset of the next element, in elements from the first.
    fn offset(&self) -> usize {
        if let Some(length) = self.adjacent {
            return length - self.left;
        }
        let strides = self.tensor.strides().iter().rev();
        let steps = strides.zip(&self.index);
        steps.map(|(&stride, &index)| stride as usize * index).sum()
    }

    fn advance(&mut self) {
        self.left -= 1;
        if self.adjacent.is_some() {
            return;
        }
        let sizes = self.tensor.shape().iter().rev();
        for (&size, index) in sizes.zip(&mut self.index) {
            *index += 1;
            if *index < size as usize {
                return;
            }
            *index = 0;
        }
    }
}

impl<T: Element> Iterator for Elements<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.left == 0 {
            return None;
        }
        let offset = self.offset();
        self.advance();
        // SAFETY: every index is below its dimension's size, so the element lies within the bytes that
        // `Tensor::check` has verified; the element type was checked when this iterator was created.
        Some(unsafe { self.tensor.abi().data.cast::<T>().add(offset).read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T: Element> ExactSizeIterator for Elements<'_, T> {}
