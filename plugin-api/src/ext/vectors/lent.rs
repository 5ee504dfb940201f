//! How a host finds the tensors of a pass: through its own `sconce.tensors/1`.

use std::slice;

use super::VectorsAbi;
use crate::abi::Status;
use crate::ext::{Refusal, TensorAbi, Tensors};

/// Tensors that a host lends itself for a pass.
#[derive(Debug)]
pub struct LentVectors {
    /// In the order of the request, without empty slots.
    pub tensors: Vec<TensorAbi>,
    axis: u32,
}

impl LentVectors {
    /// Lends the tensors that a plugin asks for.
    ///
    /// # Errors
    ///
    /// The host's, for a tensor that can't be lent.
    ///
    /// # Safety
    ///
    /// The indices are borrowed for the call, as many as are said.
    pub unsafe fn lend<H: Tensors>(
        host: &H,
        vectors: &VectorsAbi,
        writable: bool,
    ) -> Result<LentVectors, Refusal> {
        // SAFETY: guaranteed by the caller.
        let given = unsafe { vectors.chosen() }?;
        let count = given.map_or_else(|| host.count(vectors.collection), <[usize]>::len);
        let mut tensors = Vec::with_capacity(count);
        for place in 0..count {
            let index = given.map_or(place, |given| given[place]);
            match host.at(vectors.collection, index, writable) {
                Ok(tensor) => tensors.push(tensor),
                Err(refusal) if refusal.status == Status::NOT_FOUND && given.is_none() => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(LentVectors {
            tensors,
            axis: vectors.axis,
        })
    }

    /// Shape of a tensor.
    pub fn shape(tensor: &TensorAbi) -> &[i64] {
        if tensor.dimensions == 0 || tensor.shape.is_null() {
            return &[];
        }
        // SAFETY: a lent tensor's shape has as many sizes as dimensions, and lives as long as the call.
        unsafe { slice::from_raw_parts(tensor.shape, tensor.dimensions as usize) }
    }

    /// Number of slices of a tensor, and of the consecutive elements that belong to one: its runs alternate with those
    /// of the other slices.
    pub fn slices(&self, tensor: &TensorAbi) -> (usize, usize) {
        let shape = LentVectors::shape(tensor);
        let size = |size: i64| usize::try_from(size).unwrap_or(0);
        match shape.get(self.axis as usize) {
            Some(&count) if count > 1 => {
                let inner = shape[self.axis as usize + 1..].iter();
                (size(count), inner.map(|&one| size(one)).product())
            }
            _ => (1, shape.iter().map(|&one| size(one)).product()),
        }
    }

    /// Number of slices of all tensors.
    pub fn slice_count(&self) -> usize {
        let tensors = self.tensors.iter();
        tensors.map(|tensor| self.slices(tensor).0).sum()
    }

    /// Refuses tensors that are written to and share elements with each other, or with others that are read.
    ///
    /// # Errors
    ///
    /// If there are any.
    pub fn check_apart(&self, read: &[TensorAbi]) -> Result<(), Refusal> {
        let range = |tensor: &TensorAbi| {
            let start = tensor.data.addr();
            (start, start.saturating_add(tensor.byte_length as usize))
        };
        let of = |tensors: &[TensorAbi], is_written: bool| -> Vec<_> {
            let filled = tensors.iter().filter(|tensor| tensor.byte_length > 0);
            filled.map(|tensor| (range(tensor), is_written)).collect()
        };
        let mut all = of(&self.tensors, true);
        all.extend(of(read, false));
        all.sort_unstable();
        // Up to where written and read elements reach so far.
        let (mut written, mut read) = (0, 0);
        for ((start, end), is_written) in all {
            if start < written || is_written && start < read {
                return Err(Refusal::invalid(
                    "two of the tensors share elements, and one is written to",
                ));
            }
            let reach = if is_written { &mut written } else { &mut read };
            *reach = end.max(*reach);
        }
        Ok(())
    }
}
