//! The model of a task, which can be used apart while it is trained: to write text, or to run it for hooks.

use std::rc::Rc;
use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};

use crate::data::Preprocessing;
use crate::nn::{Model, Pass};

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
