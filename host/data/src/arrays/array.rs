//! A numeric array, whatever file it comes from.

use half::{bf16, f16};

use super::Error;

/// Element type of an array in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
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

impl Element {
    /// Returns the size of an element in bytes.
    pub(super) fn size(self) -> usize {
        match self {
            Element::I8 | Element::U8 | Element::Bool => 1,
            Element::F16 | Element::Bf16 | Element::I16 | Element::U16 => 2,
            Element::F32 | Element::I32 | Element::U32 => 4,
            Element::F64 | Element::I64 | Element::U64 => 8,
        }
    }

    /// Reads elements from bytes of either byte order. Integers above `i64::MAX` become `i64::MAX`, which is
    /// never a valid class.
    pub(super) fn read(self, bytes: &[u8], big_endian: bool) -> Elements {
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
            Element::F16 => {
                Elements::Floats(chunks.map(|b| f16::from_bits(b as u16).to_f32()).collect())
            }
            Element::Bf16 => {
                Elements::Floats(chunks.map(|b| bf16::from_bits(b as u16).to_f32()).collect())
            }
            Element::F32 => Elements::Floats(chunks.map(|b| f32::from_bits(b as u32)).collect()),
            Element::F64 => Elements::Floats(chunks.map(|b| f64::from_bits(b) as f32).collect()),
            Element::I8 => {
                Elements::Integers(chunks.map(|b| i64::from((b as u8).cast_signed())).collect())
            }
            Element::I16 => Elements::Integers(
                chunks
                    .map(|b| i64::from((b as u16).cast_signed()))
                    .collect(),
            ),
            Element::I32 => Elements::Integers(
                chunks
                    .map(|b| i64::from((b as u32).cast_signed()))
                    .collect(),
            ),
            Element::I64 => Elements::Integers(chunks.map(u64::cast_signed).collect()),
            Element::Bool => Elements::Integers(chunks.map(|b| i64::from(b != 0)).collect()),
            Element::U8 | Element::U16 | Element::U32 | Element::U64 => {
                let most = |b| i64::try_from(b).unwrap_or(i64::MAX);
                Elements::Integers(chunks.map(most).collect())
            }
        }
    }
}

/// Elements of an array in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Elements {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

/// An array with at least one dimension and one element.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    /// Source of the array, for messages.
    pub(super) place: String,
    pub(super) shape: Vec<usize>,
    pub(super) elements: Elements,
}

impl Array {
    /// Creates an array with as many elements as its shape requires.
    pub(super) fn new(
        place: String,
        shape: Vec<usize>,
        elements: Elements,
    ) -> Result<Array, Error> {
        if shape.contains(&0) {
            let found = shape;
            return Err(Error::Nothing { place, found });
        }
        if shape.is_empty() {
            return Err(Error::Rank {
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
    pub(super) fn numbers(&self) -> Result<Vec<f32>, Error> {
        let numbers: Vec<f32> = match &self.elements {
            Elements::Floats(numbers) => numbers.clone(),
            Elements::Integers(numbers) => numbers.iter().map(|&number| number as f32).collect(),
        };
        let size = self.sample_shape().iter().product::<usize>().max(1);
        match numbers.iter().enumerate().find(|(_, x)| !x.is_finite()) {
            None => Ok(numbers),
            Some((index, &found)) => Err(Error::NotFinite {
                place: self.place.clone(),
                sample: index / size,
                found,
            }),
        }
    }
}
