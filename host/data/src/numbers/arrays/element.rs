//! The types of elements that arrays have in files and in memory, and their values.

use half::{bf16, f16};

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

    /// The value of one element from its bits.
    fn value(self, bits: u64) -> f32 {
        let unsigned = || i64::try_from(bits).unwrap_or(i64::MAX) as f32;
        match self {
            ArrayElement::F16 => f16::from_bits(bits as u16).to_f32(),
            ArrayElement::Bf16 => bf16::from_bits(bits as u16).to_f32(),
            ArrayElement::F32 => f32::from_bits(bits as u32),
            ArrayElement::F64 => f64::from_bits(bits) as f32,
            ArrayElement::I8 => i64::from((bits as u8).cast_signed()) as f32,
            ArrayElement::I16 => i64::from((bits as u16).cast_signed()) as f32,
            ArrayElement::I32 => i64::from((bits as u32).cast_signed()) as f32,
            ArrayElement::I64 => bits.cast_signed() as f32,
            ArrayElement::Bool => f32::from(u8::from(bits != 0)),
            ArrayElement::U8 | ArrayElement::U16 | ArrayElement::U32 | ArrayElement::U64 => {
                unsigned()
            }
        }
    }

    /// Reads elements as values, as [`read`](ArrayElement::read) and a conversion of integers would.
    pub(super) fn values(self, bytes: &[u8], big_endian: bool) -> Vec<f32> {
        let value = |chunk: &[u8]| {
            let mut little = [0; 8];
            for (place, byte) in little.iter_mut().zip(chunk) {
                *place = *byte;
            }
            if big_endian {
                little[..chunk.len()].reverse();
            }
            self.value(u64::from_le_bytes(little))
        };
        if self == ArrayElement::F32 && !big_endian {
            let (chunks, _) = bytes.as_chunks::<4>();
            return chunks
                .iter()
                .map(|chunk| f32::from_le_bytes(*chunk))
                .collect();
        }
        bytes.chunks_exact(self.size()).map(value).collect()
    }
}
