//! Builds linear layers, with weights of their own or of other layers.

use super::builder::Builder;
use super::made::{Made, flops};
use super::problem::{LayerProblem, last};
use crate::init::Init;
use crate::layers::LinearOptions;
use crate::ops::WeightOrder;
use crate::{Linear, LinearConfig, Signal};

impl Builder<'_> {
    pub(super) fn linear(
        &mut self,
        config: &LinearConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let inputs = last(input)?;
        let order = if config.transposed {
            WeightOrder::InputsOutputs
        } else {
            WeightOrder::OutputsInputs
        };
        let options = LinearOptions {
            bias: config.bias.unwrap_or(config.tied.is_none()),
            init: config.init.map(Init::from),
            order,
        };
        let (layer, outputs) = if let Some(other) = &config.tied {
            let weight = self.weight_of(other)?;
            let adapters = self.parameters.adapters();
            if adapters.is_some_and(|adapters| adapters.has(other)) {
                return Err(LayerProblem::new(format!(
                    "uses the weight of `{other}`, which has an adapter: what several layers use can't have one"
                )));
            }
            let outputs = tied_outputs(config, other, (weight.dims(), order), inputs)?;
            let mut scope = self.parameters.scope(name);
            (Linear::tied(&mut scope, weight, options)?, outputs)
        } else {
            let outputs = self.outputs_of(config)?;
            let mut scope = self.parameters.scope(name);
            let layer = Linear::with(&mut scope, inputs, outputs, options)?;
            self.lend(name, layer.weight());
            (layer, outputs)
        };
        let mut output = input.clone();
        if let Some(last) = output.shape.last_mut() {
            *last = outputs;
        }
        let flops = flops([inputs, output.count()]);
        Ok(Made {
            layer: Box::new(layer),
            output,
            flops,
        })
    }
}

impl Builder<'_> {
    /// The configured outputs of a layer, by default as many as the targets need.
    fn outputs_of(&self, config: &LinearConfig) -> Result<usize, LayerProblem> {
        match config.outputs {
            Some(outputs) => Ok(outputs),
            None if self.outputs > 0 => Ok(self.outputs),
            None => Err(LayerProblem::new(
                "needs `outputs`: the data have no targets, from which their number would follow"
                    .to_owned(),
            )),
        }
    }
}

/// The outputs of a layer that uses the weight of `other`, of this shape.
fn tied_outputs(
    config: &LinearConfig,
    other: &str,
    (shape, order): (&[usize], WeightOrder),
    inputs: usize,
) -> Result<usize, LayerProblem> {
    let problem = |what: String| {
        LayerProblem::new(format!(
            "uses the weight of `{other}`, which is {shape:?}, and {what}"
        ))
    };
    let outputs = match (order, shape) {
        (WeightOrder::OutputsInputs, &[outputs, own]) if own == inputs => outputs,
        (WeightOrder::InputsOutputs, &[own, outputs]) if own == inputs => outputs,
        _ => return Err(problem(format!("has {inputs} inputs"))),
    };
    match config.outputs {
        Some(wanted) if wanted != outputs => Err(problem(format!("`outputs` {wanted}"))),
        _ => Ok(outputs),
    }
}
