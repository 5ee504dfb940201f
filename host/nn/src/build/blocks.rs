//! Builds layers that contain others.

use candle_core::Tensor;

use super::builder::Builder;
use super::made::Made;
use super::problem::{LayerError, LayerProblem};
use crate::network::{Branches, Recomputed};
use crate::{
    Combination, Inputs, Layer, LayerConfig, LayerKind, ParallelConfig, RepeatConfig, Residual,
    ResidualConfig, Sequence, SequentialLayers, Signal,
};

/// What was there before the layers of a block: numbers of modules, parameters and weights of other layers.
#[derive(Clone, Copy)]
struct Before {
    modules: usize,
    parameters: usize,
    borrowed: usize,
}

impl Builder<'_> {
    pub(super) fn sequential(
        &mut self,
        block: &SequentialLayers,
        input: &Signal,
    ) -> Result<Made, LayerError> {
        let before = self.before();
        let (sequence, output, flops) = self.sequence("layers", &block.layers, input)?;
        Ok(Made {
            layer: self.block(sequence, block.recompute, before),
            output,
            flops,
        })
    }

    /// Each repetition is a `sequential` layer, whose name is its number.
    pub(super) fn repeat(
        &mut self,
        block: &RepeatConfig,
        input: &Signal,
    ) -> Result<Made, LayerError> {
        let repetition = LayerKind::Sequential(SequentialLayers {
            layers: block.layers.clone(),
            recompute: block.recompute,
        });
        let mut layers = Sequence::default();
        let (mut signal, mut flops) = (input.clone(), 0_u64);
        for number in 0..block.count {
            let config = LayerConfig::named(number.to_string(), repetition.clone());
            let (module, made) = self.layer(&config, &signal)?;
            layers.push(module, made.layer);
            signal = made.output;
            flops = flops.saturating_add(made.flops);
        }
        Ok(Made {
            layer: Box::new(layers),
            output: signal,
            flops,
        })
    }

    pub(super) fn residual(
        &mut self,
        block: &ResidualConfig,
        input: &Signal,
    ) -> Result<Result<Made, LayerProblem>, LayerError> {
        let before = self.before();
        let (layers, output, inside) = self.sequence("layers", &block.layers, input)?;
        let (shortcut, past, outside) = self.sequence("shortcut", &block.shortcut, input)?;
        if past != output {
            let problem = format!(
                "adds {output}, what its layers make, to {past}, what its shortcut leaves; \
                 both must have the same shape"
            );
            return Ok(Err(LayerProblem::new(problem)));
        }
        let residual = Residual {
            layers,
            shortcut,
            activation: block.activation,
        };
        Ok(Ok(Made {
            layer: self.block(residual, block.recompute, before),
            output,
            flops: inside.saturating_add(outside),
        }))
    }

    pub(super) fn parallel(
        &mut self,
        block: &ParallelConfig,
        input: &Signal,
    ) -> Result<Result<Made, LayerProblem>, LayerError> {
        let (mut branches, mut outputs, mut flops) = (Vec::new(), Vec::new(), 0_u64);
        let outer = self.path.clone();
        for (index, layers) in block.branches.iter().enumerate() {
            let dot = if outer.is_empty() { "" } else { "." };
            self.path = format!("{outer}{dot}branches[{index}]");
            let (sequence, output, cost) = self.sequence("", layers, input)?;
            branches.push(sequence);
            outputs.push(output);
            flops = flops.saturating_add(cost);
        }
        self.path = outer;
        let output = match combined(block, &outputs) {
            Ok(output) => output,
            Err(problem) => return Ok(Err(problem)),
        };
        let layer = Branches {
            lists: branches,
            combine: block.combine,
            ranks: outputs.iter().map(|output| output.shape.len()).collect(),
            axis: block.axis,
        };
        Ok(Ok(Made {
            layer: Box::new(layer),
            output,
            flops,
        }))
    }

    fn before(&self) -> Before {
        Before {
            modules: self.modules.len(),
            parameters: self.parameters.len(),
            borrowed: self.borrowed.len(),
        }
    }

    /// Returns a block of what was built since `before`, recomputed on request.
    fn block(
        &self,
        layer: impl Layer + 'static,
        is_recomputed: bool,
        before: Before,
    ) -> Box<dyn Layer> {
        if !is_recomputed {
            return Box::new(layer);
        }
        let modules = self.modules.iter().skip(before.modules).cloned().collect();
        let parameters = self.parameters.iter().skip(before.parameters);
        let mut tensors: Vec<Tensor> = parameters
            .map(|parameter| parameter.tensor().clone())
            .collect();
        for weight in self.borrowed.iter().skip(before.borrowed) {
            if !tensors.iter().any(|known| known.id() == weight.id()) {
                tensors.push(weight.clone());
            }
        }
        Box::new(Recomputed::new(layer, modules, tensors))
    }
}

/// What the outputs of branches are combined to.
fn combined(block: &ParallelConfig, outputs: &[Signal]) -> Result<Signal, LayerProblem> {
    let Some((first, others)) = outputs.split_first() else {
        return Err(LayerProblem::new("has no branches"));
    };
    let shapes = || {
        let shapes: Vec<String> = outputs
            .iter()
            .map(|output| format!("{:?}", output.shape))
            .collect();
        shapes.join(", ")
    };
    let is_other = |output: &Signal| output.content != Inputs::Numbers;
    if outputs.len() > 1
        && let Some((index, output)) = outputs
            .iter()
            .enumerate()
            .find(|(_, output)| is_other(output))
    {
        return Err(LayerProblem::new(format!(
            "combines numbers, and its branch {index} leaves {output}"
        )));
    }
    match block.combine {
        Combination::Add if others.iter().all(|other| other == first) => Ok(first.clone()),
        Combination::Add => Err(LayerProblem::new(format!(
            "adds what its branches leave, of shapes {}; all must have the same shape",
            shapes()
        ))),
        Combination::Multiply => product_of(outputs).ok_or_else(|| {
            LayerProblem::new(format!(
                "multiplies what its branches leave, of shapes {}; all must have the same shape, or be a number for each channel \
                 of the others' images",
                shapes()
            ))
        }),
        Combination::Concatenate => {
            concatenated(block.axis, first, others).ok_or_else(|| {
                LayerProblem::new(format!(
                    "concatenates along dimension {} what its branches leave, of shapes {}; all other dimensions must be the same",
                    block.axis,
                    shapes()
                ))
            })
        }
    }
}

/// The largest of the factors, if all others are like it or have a number for each of its channels.
fn product_of(factors: &[Signal]) -> Option<Signal> {
    let largest = factors.iter().max_by_key(|factor| factor.shape.len())?;
    let fits = |factor: &&Signal| {
        let is_per_channel = largest.shape.len() == 3 && factor.shape == largest.shape[..1];
        *factor == largest || is_per_channel
    };
    factors
        .iter()
        .all(|factor| fits(&factor))
        .then(|| largest.clone())
}

fn concatenated(axis: usize, first: &Signal, others: &[Signal]) -> Option<Signal> {
    let mut output = first.clone();
    output.shape.get(axis)?;
    for other in others {
        let same = |(index, (a, b)): (usize, (&usize, &usize))| index == axis || a == b;
        let mut sizes = output.shape.iter().zip(&other.shape).enumerate();
        let fits = output.shape.len() == other.shape.len() && sizes.all(same);
        // Along the positions, the length is the sum of what there is.
        if !fits || (axis > 0 && output.varies != other.varies) {
            return None;
        }
        output.varies |= other.varies;
        let size = output.shape.get_mut(axis)?;
        *size = size.saturating_add(*other.shape.get(axis)?);
    }
    Some(output)
}
