//! Sizes of a linear layer.

use candle_core::{Result, bail};

use crate::kernels::{FEW_ROWS, Matrix, StreamedMatrix};
use crate::options::WeightOrder;

#[derive(Clone, Copy)]
pub(crate) struct LinearSizes {
    pub(crate) rows: usize,
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    pub(super) order: WeightOrder,
}

impl LinearSizes {
    pub(crate) fn of(x: &[usize], weight: &[usize], order: WeightOrder) -> Result<LinearSizes> {
        let (&[first, second], Some((&last, leading))) = (weight, x.split_last()) else {
            bail!("a linear layer of weight {weight:?} was given {x:?}")
        };
        let (inputs, outputs) = order.sizes([first, second]);
        if last != inputs {
            bail!("a linear layer of {inputs} inputs was given {x:?}")
        }
        Ok(LinearSizes {
            rows: leading.iter().product(),
            outputs,
            inputs,
            order,
        })
    }

    /// A weight as a matrix (outputs, inputs).
    pub(super) fn weight<'a, T>(&self, weight: &'a [T]) -> Matrix<'a, T> {
        match self.order {
            WeightOrder::OutputsInputs => Matrix::new(weight, self.outputs, self.inputs),
            WeightOrder::InputsOutputs => Matrix::new(weight, self.inputs, self.outputs).t(),
        }
    }

    /// Whether there are so few rows that computing takes as long as reading the weight does.
    pub(super) fn has_few_rows(&self) -> bool {
        (1..=FEW_ROWS).contains(&self.rows) && self.inputs > 0 && self.outputs > 0
    }

    /// A weight as the matrix (inputs, outputs) that inputs are multiplied by.
    pub(super) fn streamed<'a, T>(&self, weight: &'a [T]) -> StreamedMatrix<'a, T> {
        match self.order {
            WeightOrder::OutputsInputs => StreamedMatrix::Columns(weight),
            WeightOrder::InputsOutputs => StreamedMatrix::Rows(weight),
        }
    }

    /// The factors of the weight's gradient in its order, from the outputs' gradients (rows, outputs) and the inputs (rows, inputs).
    pub(super) fn of_weight<'a, T>(
        &self,
        of_output: Matrix<'a, T>,
        x: Matrix<'a, T>,
    ) -> (Matrix<'a, T>, Matrix<'a, T>) {
        match self.order {
            WeightOrder::OutputsInputs => (of_output.t(), x),
            WeightOrder::InputsOutputs => (x.t(), of_output),
        }
    }
}
