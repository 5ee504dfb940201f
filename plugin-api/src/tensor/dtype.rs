//! Element types of tensors.

/// The type of a tensor's elements.
///
/// New types may be added: match with a wildcard arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 16-bit IEEE 754 float (binary16).
    F16,
    /// 16-bit float with the exponent range of a 32-bit one (bfloat16).
    Bf16,
    /// 64-bit signed integer.
    I64,
    /// 32-bit unsigned integer.
    U32,
    /// 8-bit unsigned integer.
    U8,
}

impl DType {
    const CODES: [(DType, u8, u8); 7] = [
        (DType::F32, 2, 32),
        (DType::F64, 2, 64),
        (DType::F16, 2, 16),
        (DType::Bf16, 4, 16),
        (DType::I64, 0, 64),
        (DType::U32, 1, 32),
        (DType::U8, 1, 8),
    ];

    /// The type with this `DLPack` code and number of bits; `None` if it is not supported.
    pub fn from_codes(code: u8, bits: u8) -> Option<DType> {
        let found = DType::CODES
            .iter()
            .find(|(_, c, b)| (*c, *b) == (code, bits));
        found.map(|(dtype, ..)| *dtype)
    }

    /// `DLPack`'s type code and number of bits.
    pub fn codes(self) -> (u8, u8) {
        let found = DType::CODES.iter().find(|(dtype, ..)| *dtype == self);
        found.map_or((2, 32), |(_, code, bits)| (*code, *bits))
    }

    /// Whether the elements are floats of any width.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::Bf16)
    }

    /// Bytes per element.
    pub fn size(self) -> usize {
        usize::from(self.codes().1 / 8)
    }

    /// Name of the type: `f32`, `bf16`, …
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::I64 => "i64",
            DType::U32 => "u32",
            DType::U8 => "u8",
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type as which elements can be read.
///
/// As std has no `f16` and `bf16`, their 16 bits are read as [`Half`] and [`BrainHalf`].
pub trait Element: Copy + 'static + sealed::Sealed {
    /// Element type of a tensor that can be read as this Rust type.
    const DTYPE: DType;
}

/// The bits of an `f16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Half(pub u16);

/// The bits of a `bf16`: the upper half of the bits of an `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct BrainHalf(pub u16);

impl From<BrainHalf> for f32 {
    fn from(half: BrainHalf) -> f32 {
        f32::from_bits(u32::from(half.0) << 16)
    }
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const DTYPE: DType = DType::$dtype;
            }
        )*
    };
}

elements!(
    f32 => F32,
    f64 => F64,
    Half => F16,
    BrainHalf => Bf16,
    i64 => I64,
    u32 => U32,
    u8 => U8,
);
