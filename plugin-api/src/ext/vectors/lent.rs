//! How a host finds the tensors of a pass: through its own `sconce.tensors/1`.

use std::ffi::c_void;
use std::slice;

use abi_stable::std_types::RString;

use super::VectorsAbi;
use crate::abi::{ErrorAbi, Status};
use crate::ext::{TensorAbi, TensorsTable};

/// Tensors that a host lends itself for a pass.
#[derive(Debug)]
pub struct LentVectors {
    /// In the order of the request, without empty slots.
    pub tensors: Vec<TensorAbi>,
    axis: u32,
}

impl LentVectors {
    /// Lends the tensors that a plugin asks for. If this is refused, the reason is in `error`.
    ///
    /// # Safety
    ///
    /// `context` is that of this call, for which `vectors`, its indices and `error` are borrowed, each of them or null.
    pub unsafe fn lend(
        table: &TensorsTable,
        context: *const c_void,
        vectors: *const VectorsAbi,
        writable: bool,
        error: *mut ErrorAbi,
    ) -> Result<LentVectors, Status> {
        // SAFETY: guaranteed by the caller.
        let vectors = unsafe { vectors.as_ref() }.ok_or(Status::INVALID)?;
        // SAFETY: guaranteed by the caller.
        let given = (!vectors.indices.is_null())
            .then(|| unsafe { slice::from_raw_parts(vectors.indices, vectors.count) });
        // SAFETY: the context is that of this call.
        let count = given.map_or_else(
            || unsafe { (table.count)(context, vectors.collection) },
            <[usize]>::len,
        );
        let mut tensors = Vec::with_capacity(count);
        for place in 0..count {
            let index = given.map_or(place, |given| given[place]);
            let mut tensor = TensorAbi::EMPTY;
            // SAFETY: as above; the tensor is ours.
            let status = unsafe {
                (table.at)(
                    context,
                    vectors.collection,
                    index,
                    u32::from(writable),
                    &raw mut tensor,
                    error,
                )
            };
            match Status(status) {
                Status::OK => tensors.push(tensor),
                Status::NOT_FOUND if given.is_none() => {}
                refused => return Err(refused),
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
    /// # Safety
    ///
    /// `error` is null or borrowed for the call.
    pub unsafe fn check_apart(
        &self,
        read: &[TensorAbi],
        error: *mut ErrorAbi,
    ) -> Result<(), Status> {
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
                // SAFETY: guaranteed by the caller.
                return Err(unsafe {
                    refuse(
                        error,
                        Status::INVALID,
                        "two of the tensors share elements, and one is written to",
                    )
                });
            }
            let reach = if is_written { &mut written } else { &mut read };
            *reach = end.max(*reach);
        }
        Ok(())
    }
}

/// Leaves a message and returns the status.
///
/// # Safety
///
/// `error` is null or borrowed for the call.
pub(crate) unsafe fn refuse(error: *mut ErrorAbi, status: Status, message: &str) -> Status {
    // SAFETY: guaranteed by the caller.
    if let Some(error) = unsafe { error.as_mut() } {
        error.message = RString::from(message);
    }
    status
}
