//! A numeric array, whatever file it comes from.

use half::{bf16, f16};

use crate::error::ArrayError;

/// Element type of an array in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrayElement {
    F16,
    Bf16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl ArrayElement {
    /// Returns the size of an element in bytes.
    pub(super) fn size(self) -> usize {
        match self {
            ArrayElement::I8 | ArrayElement::U8 | ArrayElement::Bool => 1,
            ArrayElement::F16 | ArrayElement::Bf16 | ArrayElement::I16 | ArrayElement::U16 => 2,
            ArrayElement::F32 | ArrayElement::I32 | ArrayElement::U32 => 4,
            ArrayElement::F64 | ArrayElement::I64 | ArrayElement::U64 => 8,
        }
    }

    /// Reads elements from bytes of either byte order. Integers above `i64::MAX` become `i64::MAX`, which is
    /// never a valid class.
    pub(super) fn read(self, bytes: &[u8], big_endian: bool) -> ArrayElements {
        let chunks = bytes.chunks_exact(self.size()).map(|chunk| {
            let mut little = [0; 8];
            for (place, byte) in little.iter_mut().zip(chunk) {
                *place = *byte;
            }
            if big_endian {
                little[..chunk.len()].reverse();
            }
            u64::from_le_bytes(little)
        });
        match self {
            ArrayElement::F16 => {
                ArrayElements::Floats(chunks.map(|b| f16::from_bits(b as u16).to_f32()).collect())
            }
            ArrayElement::Bf16 => {
                ArrayElements::Floats(chunks.map(|b| bf16::from_bits(b as u16).to_f32()).collect())
            }
            ArrayElement::F32 => {
                ArrayElements::Floats(chunks.map(|b| f32::from_bits(b as u32)).collect())
            }
            ArrayElement::F64 => {
                ArrayElements::Floats(chunks.map(|b| f64::from_bits(b) as f32).collect())
            }
            ArrayElement::I8 => ArrayElements::Integers(
                chunks.map(|b| i64::from((b as u8).cast_signed())).collect(),
            ),
            ArrayElement::I16 => ArrayElements::Integers(
                chunks
                    .map(|b| i64::from((b as u16).cast_signed()))
                    .collect(),
            ),
            ArrayElement::I32 => ArrayElements::Integers(
                chunks
                    .map(|b| i64::from((b as u32).cast_signed()))
                    .collect(),
            ),
            ArrayElement::I64 => ArrayElements::Integers(chunks.map(u64::cast_signed).collect()),
            ArrayElement::Bool => {
                ArrayElements::Integers(chunks.map(|b| i64::from(b != 0)).collect())
            }
            ArrayElement::U8 | ArrayElement::U16 | ArrayElement::U32 | ArrayElement::U64 => {
                let most = |b| i64::try_from(b).unwrap_or(i64::MAX);
                ArrayElements::Integers(chunks.map(most).collect())
            }
        }
    }
}

/// Elements of an array in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ArrayElements {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

/// An array with at least one dimension and one element.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    /// Source of the array, for messages.
    pub(super) place: String,
    pub(super) shape: Vec<usize>,
    pub(super) elements: ArrayElements,
}

impl Array {
    /// Creates an array with as many elements as its shape requires.
    pub(super) fn new(
        place: String,
        shape: Vec<usize>,
        elements: ArrayElements,
    ) -> Result<Array, ArrayError> {
        if shape.contains(&0) {
            let found = shape;
            return Err(ArrayError::Nothing { place, found });
        }
        if shape.is_empty() {
            return Err(ArrayError::Rank {
                place,
                role: "arrays",
                wanted: "(samples, …)",
                found: shape,
            });
        }
        Ok(Array {
            place,
            shape,
            elements,
        })
    }

    /// Returns the number of samples.
    pub(super) fn count(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Returns the shape of one sample.
    pub(super) fn sample_shape(&self) -> &[usize] {
        self.shape.get(1..).unwrap_or_default()
    }

    /// Returns the elements as `f32`, or an error if one is not finite.
    pub(super) fn numbers(&self) -> Result<Vec<f32>, ArrayError> {
        let numbers: Vec<f32> = match &self.elements {
            ArrayElements::Floats(numbers) => numbers.clone(),
            ArrayElements::Integers(numbers) => {
                numbers.iter().map(|&number| number as f32).collect()
            }
        };
        let size = self.sample_shape().iter().product::<usize>().max(1);
        match numbers.iter().enumerate().find(|(_, x)| !x.is_finite()) {
            None => Ok(numbers),
            Some((index, &found)) => Err(ArrayError::NotFinite {
                place: self.place.clone(),
                sample: index / size,
                found,
            }),
        }
    }
}
