//! The model of a task of text, which can write some while it is trained.

use std::rc::Rc;
use std::sync::Arc;

use candle_core::Device;

use crate::data::Preprocessing;
use crate::nn::Model;

/// A task's model with what its inputs are made by. It computes with the parameters that the task has at the time.
#[derive(Clone)]
pub struct TextModel {
    /// The model.
    pub network: Rc<dyn Model>,
    /// What its inputs are made by, and a tokenizer if it has one.
    pub preprocessing: Arc<Preprocessing>,
    /// Device of its parameters.
    pub device: Device,
}
