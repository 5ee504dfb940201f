//! Memory that a tape holds for the backward pass.

use std::collections::HashMap;

use candle_core::{CpuStorage, Storage, Tensor};

use super::{RecordedOperation, TAPE};

/// Bytes of the activations that the recording in progress holds for the backward pass: inputs and outputs of its
/// operations, each once, without variables, and what operations keep beside them.
///
/// Tensors that only candle's own operations hold are not among them.
pub fn recorded_bytes() -> usize {
    TAPE.with_borrow(|tape| {
        let mut activations = HashMap::new();
        let mut beside = 0;
        for entry in tape.iter().flatten() {
            beside += entry.beside;
            for tensor in entry.tensors() {
                let (address, size) = memory(tensor);
                activations.insert(address, size);
            }
        }
        beside + activations.values().sum::<usize>()
    })
}

/// Adds to what the last recorded operation holds for its backward pass, beside its inputs and its output.
pub fn keeps(bytes: usize) {
    TAPE.with_borrow_mut(|tape| {
        if let Some(entry) = tape.as_mut().and_then(|tape| tape.last_mut()) {
            entry.beside += bytes;
        }
    });
}

impl RecordedOperation {
    /// Output and inputs, without variables.
    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let all = std::iter::once(&self.made).chain(self.inputs());
        all.filter(|tensor| !tensor.is_variable())
    }
}

/// Address and size in bytes of a tensor's memory.
pub(super) fn memory(tensor: &Tensor) -> (usize, usize) {
    fn of<T>(elements: &[T]) -> (usize, usize) {
        (elements.as_ptr().addr(), size_of_val(elements))
    }
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(CpuStorage::F32(elements)) => of(elements),
        Storage::Cpu(CpuStorage::F64(elements)) => of(elements),
        Storage::Cpu(CpuStorage::BF16(elements)) => of(elements),
        Storage::Cpu(CpuStorage::U32(elements)) => of(elements),
        Storage::Cpu(CpuStorage::I64(elements)) => of(elements),
        // Elsewhere a tensor is taken for all of its memory, which views of it share.
        other => {
            let size = layout.shape().elem_count() * tensor.dtype().size_in_bytes();
            (std::ptr::from_ref(other).addr(), size)
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;
    use crate::{linear, record, relu, reshape};

    #[test]
    fn each_activation_counts_once_and_variables_do_not() -> candle_core::Result<()> {
        let x = Tensor::new(&[[1.0_f32, 2.0]], &crate::device::for_tests())?;
        let weight = Var::new(
            &[[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]],
            &crate::device::for_tests(),
        )?;
        let recording = record();
        assert_eq!(recorded_bytes(), 0);
        let y = relu(&linear(&x, &weight, None)?)?;
        // Inputs, 2, and two times 3 outputs; a reshaped tensor shares its memory.
        reshape(&y, 3)?;
        assert_eq!(recorded_bytes(), 4 * (2 + 3 + 3));
        keeps(5);
        assert_eq!(recorded_bytes(), 4 * (2 + 3 + 3) + 5);
        drop(recording);
        assert_eq!(recorded_bytes(), 0);
        Ok(())
    }
}
