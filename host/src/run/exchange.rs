//! Exchanges the elements of two tensors in place.

use std::cell::RefCell;

use candle_core::{CpuStorage, InplaceOp1, Layout, Tensor, bail};

use super::tensor_result::TensorResult;

/// Exchanges the elements of two contiguous tensors of the same shape and type.
pub(super) fn exchange(left: &Tensor, right: &Tensor) -> TensorResult<()> {
    left.inplace_op1(&with(|left: &mut CpuStorage, left_layout: &Layout| {
        right.inplace_op1(&with(|right: &mut CpuStorage, right_layout: &Layout| {
            let (Some(l), Some(r)) = (
                left_layout.contiguous_offsets(),
                right_layout.contiguous_offsets(),
            ) else {
                bail!("a swapped tensor is not contiguous");
            };
            match (&mut *left, right) {
                (CpuStorage::F32(left), CpuStorage::F32(right)) => swap(left, right, l, r),
                (CpuStorage::F64(left), CpuStorage::F64(right)) => swap(left, right, l, r),
                (CpuStorage::F16(left), CpuStorage::F16(right)) => swap(left, right, l, r),
                (CpuStorage::BF16(left), CpuStorage::BF16(right)) => swap(left, right, l, r),
                (CpuStorage::I64(left), CpuStorage::I64(right)) => swap(left, right, l, r),
                (CpuStorage::U32(left), CpuStorage::U32(right)) => swap(left, right, l, r),
                (CpuStorage::U8(left), CpuStorage::U8(right)) => swap(left, right, l, r),
                _ => bail!("swapped tensors are of different types"),
            }
            Ok(())
        }))
    }))
}

fn swap<T>(left: &mut [T], right: &mut [T], l: (usize, usize), r: (usize, usize)) {
    if let (Some(left), Some(right)) = (left.get_mut(l.0..l.1), right.get_mut(r.0..r.1)) {
        // Both have the same length, since the shapes are equal.
        for (left, right) in left.iter_mut().zip(right) {
            std::mem::swap(left, right);
        }
    }
}

/// A closure as an in-place operation.
struct With<F>(RefCell<F>);

impl<F: FnMut(&mut CpuStorage, &Layout) -> TensorResult<()>> InplaceOp1 for With<F> {
    fn name(&self) -> &'static str {
        "swap"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> TensorResult<()> {
        (self.0.borrow_mut())(storage, layout)
    }
}

fn with<F>(work: F) -> With<F>
where
    F: FnMut(&mut CpuStorage, &Layout) -> TensorResult<()>,
{
    With(RefCell::new(work))
}
