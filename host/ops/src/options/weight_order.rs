//! Order of a linear layer's weight.

/// Order of the dimensions of a linear layer's weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightOrder {
    /// (outputs, inputs), as PyTorch's `Linear`.
    #[default]
    OutputsInputs,
    /// (inputs, outputs), as GPT-2's `Conv1D`.
    InputsOutputs,
}

impl WeightOrder {
    /// Returns the shape of a weight.
    pub fn shape(self, inputs: usize, outputs: usize) -> [usize; 2] {
        match self {
            WeightOrder::OutputsInputs => [outputs, inputs],
            WeightOrder::InputsOutputs => [inputs, outputs],
        }
    }

    /// Returns (inputs, outputs) of a weight of this shape.
    pub(crate) fn sizes(self, [first, second]: [usize; 2]) -> (usize, usize) {
        match self {
            WeightOrder::OutputsInputs => (second, first),
            WeightOrder::InputsOutputs => (first, second),
        }
    }
}
