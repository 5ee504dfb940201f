//! A numeric array, whatever file it comes from.

use std::sync::Arc;

use half::{bf16, f16};

use super::element::ArrayElement;
use super::kept::KeptElements;
use crate::error::ArrayError;
use crate::numbers::values::{InputValues, KeptValues};

/// Elements of an array in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ArrayElements {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
    /// As they are in the memory of another program's, of any type.
    Kept(KeptElements),
}

impl ArrayElements {
    /// Reads elements from bytes of either byte order. Integers above `i64::MAX` become `i64::MAX`, which is
    /// never a valid class.
    pub(super) fn read(element: ArrayElement, bytes: &[u8], big_endian: bool) -> ArrayElements {
        let chunks = bytes.chunks_exact(element.size()).map(|chunk| {
            let mut little = [0; 8];
            for (place, byte) in little.iter_mut().zip(chunk) {
                *place = *byte;
            }
            if big_endian {
                little[..chunk.len()].reverse();
            }
            u64::from_le_bytes(little)
        });
        match element {
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

    /// The elements as values of this program's.
    pub(super) fn own(self) -> ArrayElements {
        match self {
            ArrayElements::Kept(kept) => {
                ArrayElements::read(kept.element, kept.content(), kept.big_endian)
            }
            own => own,
        }
    }
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

    /// The array with elements of this program's.
    pub(super) fn own(self) -> Array {
        Array {
            elements: self.elements.own(),
            ..self
        }
    }

    /// Returns the inputs of samples, or an error if an element is not finite. What is kept elsewhere stays there.
    pub(super) fn inputs(&self) -> Result<InputValues, ArrayError> {
        let ArrayElements::Kept(kept) = &self.elements else {
            return self.numbers().map(InputValues::Own);
        };
        let size = self.sample_shape().iter().product::<usize>().max(1);
        for sample in 0..self.count() {
            let values = kept.values(sample * size..(sample + 1) * size);
            if let Some(&found) = values.iter().flatten().find(|x| !x.is_finite()) {
                let place = self.place.clone();
                return Err(ArrayError::NotFinite {
                    place,
                    sample,
                    found,
                });
            }
        }
        Ok(InputValues::Kept(Arc::new(kept.clone())))
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
            ArrayElements::Kept(kept) => kept.values(0..kept.len()).unwrap_or_default(),
        };
        self.finite(numbers)
    }

    /// Returns the numbers, or an error if one is not finite.
    fn finite(&self, numbers: Vec<f32>) -> Result<Vec<f32>, ArrayError> {
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
