//! Parameters and gradients in checkpoints.

use candle_core::Tensor;

use crate::checkpoint::{Checkpoint, Section, accumulated_name};
use crate::gradients::{GradientTree, Gradients};
use crate::parameters::{Parameter, ParameterRole, Parameters};
use crate::run::iteration::update::Update;
use crate::run::sums::loss_weight::LossWeight;
use crate::run::weights::swapped::Swapped;
use crate::task::Task;

/// The parameters that checkpoints have: all but those of a base that is held.
pub(in crate::run) fn saved(parameters: &Parameters) -> impl Iterator<Item = &Parameter> {
    let all = parameters.iter();
    all.filter(|parameter| parameter.role() != ParameterRole::Base)
}

/// The parameters under their full names; those that are swapped as they are without that.
pub(in crate::run) fn parameter_tensors(
    parameters: &Parameters,
    swapped: Option<&Swapped>,
) -> Vec<(String, Tensor)> {
    let tensors = saved(parameters).map(|parameter| {
        let real = swapped.and_then(|swapped| swapped.real(parameter.name()));
        let tensor = real.unwrap_or_else(|| parameter.tensor()).clone();
        (Section::Parameters.full_name(parameter.name()), tensor)
    });
    tensors.collect()
}

/// Restores the parameters; if one does not fit, none is changed.
pub(in crate::run) fn restore_parameters(
    parameters: &Parameters,
    content: &Checkpoint,
) -> candle_core::Result<()> {
    let mut found = Vec::with_capacity(parameters.len());
    for parameter in saved(parameters) {
        let name = Section::Parameters.full_name(parameter.name());
        let Some(tensor) = content.tensor(&name) else {
            candle_core::bail!("the checkpoint lacks `{name}`");
        };
        if tensor.dims() != parameter.tensor().dims() {
            candle_core::bail!(
                "`{name}` has the shape {:?}, the model's parameter {:?}",
                tensor.dims(),
                parameter.tensor().dims()
            );
        }
        found.push(tensor.to_dtype(parameter.tensor().dtype())?);
    }
    for (parameter, tensor) in saved(parameters).zip(&found) {
        parameter.assign(tensor)?;
    }
    Ok(())
}

impl Update {
    /// Adds the gradients so far to a checkpoint's tensors, under their full names.
    pub(in crate::run) fn add_tensors(
        &self,
        parameters: &Parameters,
        tensors: &mut Vec<(String, Tensor)>,
    ) -> candle_core::Result<()> {
        for (index, (_, gradients)) in self.accumulated.nodes().iter().enumerate() {
            for (place, parameter) in parameters.iter().enumerate() {
                if let Some(gradient) = gradients.at(place) {
                    let name = accumulated_name(index, parameter.name());
                    let gradient = gradient.contiguous()?;
                    tensors.push((Section::Accumulated.full_name(&name), gradient));
                }
            }
        }
        Ok(())
    }

    /// Restores the gradients of an update in progress, on the first rank: each batch counts once.
    pub(in crate::run) fn restore(
        &mut self,
        content: &Checkpoint,
        task: &dyn Task,
        is_first: bool,
    ) -> candle_core::Result<()> {
        self.accumulated = if is_first {
            accumulated(task.parameters(), content)?
        } else {
            GradientTree::default()
        };
        self.weight = LossWeight::of_checkpoint(&content.header);
        if task.has_varying_weight()
            && content.header.accumulated_weight.is_none()
            && content.under(Section::Accumulated).next().is_some()
        {
            candle_core::bail!(
                "an earlier version of Sconce saved it in the middle of an update, whose batches it weighted by their number \
                 of samples, not by what this loss counts: resume from a checkpoint between two updates"
            );
        }
        Ok(())
    }
}

/// The gradients of an update in progress.
fn accumulated(parameters: &Parameters, content: &Checkpoint) -> candle_core::Result<GradientTree> {
    let mut tree = GradientTree::default();
    for (index, node) in content.header.accumulated_nodes().into_iter().enumerate() {
        let mut gradients = Gradients::none(parameters);
        let mut any = false;
        for (place, parameter) in parameters.iter().enumerate() {
            let name = Section::Accumulated.full_name(&accumulated_name(index, parameter.name()));
            if let Some(gradient) = content.tensor(&name) {
                if gradient.dims() != parameter.tensor().dims() {
                    candle_core::bail!(
                        "`{name}` has the shape {:?}, the model's parameter {:?}",
                        gradient.dims(),
                        parameter.tensor().dims()
                    );
                }
                gradients.set(place, gradient.to_device(parameters.device())?);
                any = true;
            }
        }
        if any {
            tree.put(node, gradients);
        }
    }
    Ok(tree)
}
