//! Elements that stay in the memory of the program that has them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::element::ArrayElement;
use crate::Content;
use crate::numbers::values::KeptValues;

/// Elements of an array in row-major order, in memory that another part of the program owns and does not change meanwhile.
#[derive(Clone)]
pub(super) struct KeptElements {
    pub(super) element: ArrayElement,
    pub(super) big_endian: bool,
    pub(super) memory: Content,
}

impl KeptElements {
    /// All bytes.
    pub(super) fn content(&self) -> &[u8] {
        (*self.memory).as_ref()
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.content().len() / self.element.size()
    }
}

impl KeptValues for KeptElements {
    fn values(&self, range: Range<usize>) -> Option<Vec<f32>> {
        let size = self.element.size();
        let bytes = range.start.checked_mul(size)?..range.end.checked_mul(size)?;
        let bytes = self.content().get(bytes)?;
        Some(self.element.values(bytes, self.big_endian))
    }
}

impl fmt::Debug for KeptElements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements of {:?}", self.len(), self.element)
    }
}

impl PartialEq for KeptElements {
    fn eq(&self, other: &KeptElements) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory)
            && (self.element, self.big_endian) == (other.element, other.big_endian)
    }
}
