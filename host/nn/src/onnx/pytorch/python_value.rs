//! What a value of a graph is in Python.

use candle_core::{Device, Result, Tensor};

use super::super::graph::ElementType;
use super::super::proto::TensorProto;
use super::literal;

/// A value, as an expression that needs no brackets.
#[derive(Clone, Debug)]
pub(super) enum PythonValue {
    Tensor(String),
    /// A number of Python.
    Number(String),
    /// Whole numbers: a shape, or axes.
    Sizes(Vec<String>),
    /// The whole shape of a tensor, of any rank.
    Shape(String),
    /// Constants that are no sizes.
    Table(Table),
    /// An array of texts, of numpy.
    Texts(String),
    /// An input that an operation does without.
    Nothing,
}

/// An array of constants.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) numbers: Vec<f64>,
    shape: Vec<usize>,
    is_double: bool,
}

impl PythonValue {
    /// A constant of a graph.
    pub(super) fn constant(proto: &TensorProto) -> PythonValue {
        let shape: Vec<usize> = proto.dims.iter().map(|&size| size as usize).collect();
        let raw = proto.raw_data.as_deref().unwrap_or_default();
        let kind = proto.data_type.unwrap_or_default();
        if kind == ElementType::Text as i32 {
            let texts = proto.string_data.iter();
            let texts = texts.map(|text| literal(&String::from_utf8_lossy(text)));
            let texts = texts.collect::<Vec<_>>().join(", ");
            return PythonValue::Texts(format!("np.array([{texts}])"));
        }
        if kind == ElementType::Int as i32 {
            let (numbers, _) = raw.as_chunks::<8>();
            let numbers = numbers
                .iter()
                .map(|&bytes| i64::from_le_bytes(bytes).to_string());
            let mut numbers: Vec<String> = numbers.collect();
            return match (shape.is_empty(), numbers.pop()) {
                (true, Some(number)) => PythonValue::Number(number),
                (_, last) => PythonValue::Sizes(numbers.into_iter().chain(last).collect()),
            };
        }
        let is_double = kind == ElementType::Double as i32;
        let numbers: Vec<f64> = if is_double {
            let (numbers, _) = raw.as_chunks::<8>();
            numbers
                .iter()
                .map(|&bytes| f64::from_le_bytes(bytes))
                .collect()
        } else {
            let (numbers, _) = raw.as_chunks::<4>();
            let singles = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes));
            singles.map(f64::from).collect()
        };
        match numbers.as_slice() {
            [number] if shape.is_empty() && is_double => PythonValue::Number(double(*number)),
            [number] if shape.is_empty() => PythonValue::Number(single(*number as f32)),
            _ => PythonValue::Table(Table {
                numbers,
                shape,
                is_double,
            }),
        }
    }
}

impl Table {
    /// It as a tensor.
    pub(super) fn tensor(&self) -> Result<Tensor> {
        if self.is_double {
            return Tensor::from_slice(&self.numbers, self.shape.as_slice(), &Device::Cpu);
        }
        let singles: Vec<f32> = self.numbers.iter().map(|&number| number as f32).collect();
        Tensor::from_vec(singles, self.shape.as_slice(), &Device::Cpu)
    }
}

/// A number as Python reads it.
fn double(number: f64) -> String {
    if number.is_finite() {
        format!("{number:?}")
    } else {
        // Python knows `inf`, `-inf` and `NaN` by these words.
        format!("float(\"{number}\")")
    }
}

/// A number of 32 bits by the fewest digits that say it.
pub(super) fn single(number: f32) -> String {
    if number.is_finite() {
        format!("{number:?}")
    } else {
        double(f64::from(number))
    }
}
