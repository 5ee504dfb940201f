//! Kinds of a sample's input and target: what a model is built for.

/// What a sample's input is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// `f32`, normalised.
    Numbers,
    /// `u32`, below this many: indices into a vocabulary.
    Tokens(usize),
}

/// What a sample's target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// One class, by its index into the names; a batch's targets are (samples), `u32`.
    Class(Vec<String>),
    /// A class for each position of the input; a batch's targets are (samples, positions), `u32`.
    ClassPerPosition(Vec<String>),
    /// Numbers of these names; a batch's targets are (samples, numbers), `f32`.
    Numbers(Vec<String>),
}

impl Targets {
    /// How many outputs a model needs for each sample or position.
    pub fn outputs(&self) -> usize {
        match self {
            Targets::Class(names) | Targets::ClassPerPosition(names) | Targets::Numbers(names) => {
                names.len()
            }
        }
    }
}
