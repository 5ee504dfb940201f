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
    /// One token for each position of the input; a batch's targets are (samples, positions), `u32`.
    TokenPerPosition(TokenTargets),
    /// Numeric targets of these names; a batch's targets are (samples, numbers), `f32`.
    Numbers(Vec<String>),
    /// No targets: outputs have any shape, and hooks give the loss. A batch's targets are (samples), `u32`, all 0.
    None,
}

/// Tokens as targets: too many classes to have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenTargets {
    /// Size of the vocabulary: targets are below it, or [`IGNORED`](TokenTargets::IGNORED).
    pub vocabulary: usize,
    /// Whether some targets are ignored, so that samples differ in how many count.
    pub are_masked: bool,
}

impl TokenTargets {
    /// The target of a position at which nothing is to be learnt, as of a prompt or of padding; −100 in PyTorch's losses.
    pub const IGNORED: u32 = u32::MAX;
}

impl Targets {
    /// Returns the number of outputs that a model needs per sample or position; 0 if any number will do.
    pub fn outputs(&self) -> usize {
        match self {
            Targets::TokenPerPosition(tokens) => tokens.vocabulary,
            named => named.names().len(),
        }
    }

    /// Returns the names of classes or numbers; tokens have none.
    pub fn names(&self) -> &[String] {
        match self {
            Targets::Class(names) | Targets::ClassPerPosition(names) | Targets::Numbers(names) => {
                names
            }
            Targets::TokenPerPosition(_) | Targets::None => &[],
        }
    }

    /// Returns the target that losses and metrics ignore, if the data themselves mark such targets.
    pub fn ignored(&self) -> Option<u32> {
        match self {
            Targets::TokenPerPosition(tokens) if tokens.are_masked => Some(TokenTargets::IGNORED),
            _ => None,
        }
    }
}
