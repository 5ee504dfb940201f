//! The model of a task, which can be used apart while it is trained: to write text, or to run it for hooks.

use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};

use crate::data::{Batch, Preprocessing};
use crate::nn::{Model, Pass, PassPart, ops};

/// A task's model with what its inputs are made by. It computes with the parameters that the task has at the time.
#[derive(Clone)]
pub struct TaskModel {
    /// The model.
    pub network: Rc<dyn Model>,
    /// What its inputs are made by, and a tokenizer if it has one.
    pub preprocessing: Arc<Preprocessing>,
    /// Device of its parameters.
    pub device: Device,
}

impl TaskModel {
    /// The outputs for a batch: those for each size of views after those for the sizes before, which the model is run on one after the
    /// other. Batch norms take the statistics of each.
    ///
    /// # Errors
    ///
    /// Those of the passes, and if the outputs for different sizes have different shapes.
    pub fn outputs_of(&self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor> {
        if batch.further_inputs.is_empty() {
            return self.outputs(&batch.inputs, pass);
        }
        let rows_of = |inputs: &Tensor| inputs.dims().first().copied().unwrap_or_default();
        let all = batch.all_inputs().map(rows_of).sum();
        let (mut joined, mut before) = (None, 0);
        for (index, inputs) in (0..).zip(batch.all_inputs()) {
            let rows = rows_of(inputs);
            pass.begin_part(Some(PassPart {
                index,
                before,
                rows,
                all,
            }));
            let outputs = self.outputs(inputs, pass)?;
            joined = Some(match joined {
                Some(joined) => ops::concatenated(&joined, &outputs, 0)?,
                None => outputs,
            });
            before += rows;
        }
        pass.begin_part(None);
        joined.ok_or_else(|| candle_core::Error::msg("the batch has no inputs"))
    }

    /// The outputs for some inputs: numbers in the data's own units, as metrics and hooks get them.
    ///
    /// # Errors
    ///
    /// Those of the pass.
    pub fn outputs(&self, inputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let outputs = self.network.forward(inputs, pass)?;
        match self.preprocessing.target_scaling() {
            Some(scaling) => scaling.original(&outputs.to_dtype(DType::F32)?),
            None => Ok(outputs),
        }
    }
}
