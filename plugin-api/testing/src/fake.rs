//! The kit's own tensors, lent in the same way as a host's.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sconce_plugin_api::abi::TextAbi;
use sconce_plugin_api::ext::TensorAbi;
use sconce_plugin_api::tensor::{DType, Element, Tensor};

/// A contiguous tensor that owns its elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fake {
    pub(super) name: Box<str>,
    memory: Memory,
    dtype: DType,
    bytes: usize,
    pub(super) is_buffer: bool,
}

/// Elements, shape and strides, which stay where they are while somebody retains them.
#[derive(Debug)]
struct Memory(Arc<Content>);

#[derive(Debug)]
struct Content {
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// Bytes of the elements, aligned for every element type; hooks write to them through pointers.
    words: Vec<AtomicU64>,
}

impl Memory {
    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.0.words.iter();
        words.map(|word| word.load(Ordering::Relaxed))
    }
}

/// A copy has memory of its own.
impl Clone for Memory {
    fn clone(&self) -> Self {
        Memory(Arc::new(Content {
            shape: self.0.shape.clone(),
            strides: self.0.strides.clone(),
            words: self.words().map(AtomicU64::new).collect(),
        }))
    }
}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        self.0.shape == other.0.shape && self.words().eq(other.words())
    }
}

impl Fake {
    pub(super) fn new<T: Element>(name: &str, shape: &[usize], elements: &[T]) -> Fake {
        let bytes = size_of_val(elements);
        let mut words = vec![0_u64; bytes.div_ceil(8)];
        // SAFETY: `words` has room for the elements' bytes and does not overlap them.
        unsafe {
            ptr::copy_nonoverlapping(
                elements.as_ptr().cast::<u8>(),
                words.as_mut_ptr().cast::<u8>(),
                bytes,
            );
        }
        let mut stride = 1;
        let mut strides: Vec<i64> = Vec::with_capacity(shape.len());
        for &size in shape.iter().rev() {
            strides.push(stride);
            stride *= wide(size);
        }
        strides.reverse();
        Fake {
            name: name.into(),
            memory: Memory(Arc::new(Content {
                shape: shape.iter().map(|&size| wide(size)).collect(),
                strides,
                words: words.into_iter().map(AtomicU64::new).collect(),
            })),
            dtype: T::DTYPE,
            bytes,
            is_buffer: false,
        }
    }

    /// Rows of numbers divided among positions, if there are several: (rows, positions, elements of each).
    pub(super) fn of_positions(self, positions: Option<usize>) -> Fake {
        let shape = self.shape();
        match (positions, shape.as_slice()) {
            (Some(positions), &[rows, width]) if width.checked_rem(positions) == Some(0) => {
                let shape = [rows, positions, width / positions];
                Fake::new(&self.name, &shape, &self.floats())
            }
            _ => self,
        }
    }

    /// Copies a tensor lent by a hook; `None` if its type is unknown.
    pub(super) fn copy_of(name: &str, tensor: &Tensor<'_>) -> Option<Fake> {
        fn with<T: Element>(name: &str, tensor: &Tensor<'_>) -> Option<Fake> {
            let shape: Vec<usize> = tensor.shape().iter().map(|&size| size as usize).collect();
            Some(Fake::new::<T>(name, &shape, &tensor.to_vec::<T>().ok()?))
        }
        match tensor.dtype()? {
            DType::F32 => with::<f32>(name, tensor),
            DType::F64 => with::<f64>(name, tensor),
            DType::F16 => with::<sconce_plugin_api::tensor::Half>(name, tensor),
            DType::Bf16 => with::<sconce_plugin_api::tensor::BrainHalf>(name, tensor),
            DType::I64 => with::<i64>(name, tensor),
            DType::U32 => with::<u32>(name, tensor),
            DType::U8 => with::<u8>(name, tensor),
            _ => None,
        }
    }

    /// Lends the tensor; the pointers are valid until it is changed, moved or dropped.
    pub(super) fn lend(&mut self, writable: bool) -> TensorAbi {
        let (type_code, type_bits) = self.dtype.codes();
        let mut flags = if writable { TensorAbi::WRITABLE } else { 0 };
        if self.is_buffer {
            flags |= TensorAbi::BUFFER;
        }
        TensorAbi {
            data: self.memory.0.words.as_ptr().cast_mut().cast(),
            byte_length: self.bytes as u64,
            shape: self.memory.0.shape.as_ptr(),
            strides: self.memory.0.strides.as_ptr(),
            name: TextAbi::new(&self.name),
            flags,
            dimensions: self.memory.0.shape.len() as u32,
            type_code,
            type_bits,
            ..TensorAbi::EMPTY
        }
    }

    /// Keeps the memory that [`lend`](Fake::lend) points to until the returned value is dropped.
    pub(super) fn retain(&self) -> Retained {
        Retained(Arc::clone(&self.memory.0))
    }

    /// Copies the elements; `None` if they are of another type.
    pub(super) fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        if self.dtype != T::DTYPE {
            return None;
        }
        let mut copy = self.clone();
        // SAFETY: the copy lives until the end of this function, and nothing writes to it.
        let tensor = unsafe { Tensor::borrowed(copy.lend(false)) }.ok()?;
        tensor.to_vec::<T>().ok()
    }

    /// The elements as `f32`; empty if they are of another type.
    pub(super) fn floats(&self) -> Vec<f32> {
        self.to_vec::<f32>().unwrap_or_default()
    }

    /// The same tensor with other elements, of type `f32`.
    pub(super) fn with_floats(&self, elements: &[f32]) -> Fake {
        let mut new = Fake::new(&self.name, &self.shape(), elements);
        new.is_buffer = self.is_buffer;
        new
    }

    /// The same tensor under another name.
    pub(super) fn named(mut self, name: &str) -> Fake {
        self.name = name.into();
        self
    }

    pub(super) fn shape(&self) -> Vec<usize> {
        let shape = self.memory.0.shape.iter();
        shape.map(|&size| size as usize).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.memory
            .0
            .shape
            .iter()
            .map(|&size| size as usize)
            .product()
    }
}

/// Memory kept for a hook, as a token of `sconce.retain/1`.
pub(super) struct Retained(#[expect(dead_code, reason = "kept for its drop")] Arc<Content>);

fn wide(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// Pseudorandom numbers in [-1, 1) that depend only on a text and a number.
///
/// Generated by splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(super) fn noise(key: &str, number: u64, count: usize) -> Vec<f32> {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut state = key.bytes().fold(0xcbf2_9ce4_8422_2325, hash) ^ number.rotate_left(32);
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| draw()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_and_noise_is_repeatable() {
        let fake = Fake::new("x", &[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(fake.floats(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(fake.to_vec::<u8>(), None);
        assert_eq!((fake.shape(), fake.len()), (vec![2, 3], 6));
        assert_eq!(noise("a", 1, 50), noise("a", 1, 50));
        assert_ne!(noise("a", 1, 5), noise("a", 2, 5));
        assert!(noise("a", 1, 500).iter().all(|x| (-1.0..=1.0).contains(x)));
    }
}
