//! Kinds of inputs and targets, for which a model is built.

use std::sync::Arc;

/// Content of a sample's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Values of type `f32`, normalised.
    Numbers,
    /// A table's row of type `f32`. For each input the number of categories that it can be, numbered from 1, or 0 if it
    /// is a number of another kind.
    Columns(Arc<[usize]>),
    /// Tokens of type `u32`, indices into a vocabulary of this size.
    Tokens(usize),
}

/// Content of a sample's target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// One class, as an index into the names; a batch's targets are (samples), `u32`.
    Class(Vec<String>),
    /// One class for each position of the input; a batch's targets are (samples, positions), `u32`.
    ClassPerPosition(Vec<String>),
    /// Numeric targets of these names; a batch's targets are (samples, numbers), `f32`.
    Numbers(Vec<String>),
}

impl Targets {
    /// Returns the number of outputs that a model needs per sample or position.
    pub fn outputs(&self) -> usize {
        match self {
            Targets::Class(names) | Targets::ClassPerPosition(names) | Targets::Numbers(names) => {
                names.len()
            }
        }
    }
}
