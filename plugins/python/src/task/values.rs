//! Arguments from Python, and results on their way to it.

use sconce_plugin_api::tensor::RetainedTensor;

/// A result on its way to Python.
pub(crate) enum Answer {
    None,
    Bool(bool),
    Count(u64),
    Number(f64),
    Name(&'static str),
    Text(String),
    /// A dictionary from names to numbers.
    Numbers(Vec<(String, f64)>),
    Tensor(RetainedTensor),
}

impl From<Option<f64>> for Answer {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Answer::None, Answer::Number)
    }
}

/// An argument from Python, converted as the method's signature says.
#[derive(Clone, Copy)]
pub(crate) enum Argument<'call> {
    Missing,
    Text(&'call str),
    Bytes(&'call [u8]),
    Integer(i64),
    Number(f64),
    Bool(bool),
}

/// The arguments of a call, checked against the method's signature.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'call>(pub(crate) [Argument<'call>; MOST_ARGUMENTS]);

pub(crate) const MOST_ARGUMENTS: usize = 5;

impl<'call> Arguments<'call> {
    fn at(&self, index: usize) -> Argument<'call> {
        self.0.get(index).copied().unwrap_or(Argument::Missing)
    }

    pub(super) fn text(&self, index: usize) -> &'call str {
        self.optional(index).unwrap_or_default()
    }

    pub(super) fn optional(&self, index: usize) -> Option<&'call str> {
        match self.at(index) {
            Argument::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn bytes(&self, index: usize) -> &'call [u8] {
        match self.at(index) {
            Argument::Bytes(bytes) => bytes,
            _ => &[],
        }
    }

    pub(super) fn integer(&self, index: usize) -> i64 {
        match self.at(index) {
            Argument::Integer(number) => number,
            _ => 0,
        }
    }

    pub(super) fn number(&self, index: usize) -> f64 {
        self.number_or(index, f64::NAN)
    }

    pub(super) fn number_or(&self, index: usize, default: f64) -> f64 {
        match self.at(index) {
            Argument::Number(number) => number,
            _ => default,
        }
    }

    pub(super) fn is_true(&self, index: usize) -> bool {
        matches!(self.at(index), Argument::Bool(true))
    }
}
