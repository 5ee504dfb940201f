//! Recurrent layers.

/// Kind of a recurrent layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentKind {
    /// Long short-term memory (Hochreiter and Schmidhuber, 1997), gates in the order input, forget, cell, output.
    Lstm,
    /// Gated recurrent unit (Cho et al., 2014), gates in the order reset, update, new.
    Gru,
}

impl RecurrentKind {
    /// Number of gates: the weights have as many rows for each element of the state.
    pub fn gates(self) -> usize {
        match self {
            RecurrentKind::Lstm => 4,
            RecurrentKind::Gru => 3,
        }
    }
}
