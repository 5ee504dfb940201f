//! The outputs of a batch as the losses take them, and checks of what a method needs.

use std::borrow::Cow;

use sconce_plugin_api::prelude::*;
use sconce_plugin_api::tensor::Tensor;

/// Refuses a batch that is not one of training.
pub(crate) fn check_phase(task: &TaskView<'_>) -> Result<()> {
    if task.phase() == Phase::Train {
        return Ok(());
    }
    bail!("{WITHOUT_VIEWS}")
}

/// Why validations have no loss.
const WITHOUT_VIEWS: &str = "validations and tests have one view of each sample, of which there is no loss: leave out the data for them";

/// Rows of numbers, with their width.
pub(crate) fn table<'view>(tensor: &Tensor<'view>) -> Result<(Cow<'view, [f32]>, usize)> {
    let &[_, width] = tensor.shape() else {
        bail!(
            "the outputs have the shape {:?}: a row of numbers is wanted for each view of a sample; end the model with `flatten` or \
             `linear`",
            tensor.shape()
        );
    };
    Ok((numbers(tensor)?, size(width)))
}

/// Rows of positions, each with a row of numbers; the number of positions, and the width of the latter.
pub(crate) fn tokens<'view>(tensor: &Tensor<'view>) -> Result<(Cow<'view, [f32]>, [usize; 2])> {
    let &[_, positions, width] = tensor.shape() else {
        bail!(
            "the outputs have the shape {:?}: rows of a class token and patches, each with a row of numbers, are wanted; end the model \
             with a `linear` over all positions",
            tensor.shape()
        );
    };
    Ok((numbers(tensor)?, [size(positions), size(width)]))
}

/// A dimension of a tensor.
fn size(of: i64) -> usize {
    usize::try_from(of).unwrap_or_default()
}

/// All elements of a tensor.
fn numbers<'view>(tensor: &Tensor<'view>) -> Result<Cow<'view, [f32]>> {
    if let Some(DType::F32) = tensor.dtype() {
        return tensor.to_contiguous::<f32>();
    }
    let values = tensor.values()?.map(|value| value as f32);
    Ok(values.collect())
}

/// Checks at a hook's creation that the data have enough views, and that there are no phases without.
pub(crate) fn check_plan(setup: &Setup<'_>, least: u64) -> Result<()> {
    let Some(plan) = setup.plan()? else {
        return Ok(());
    };
    if (1..least).contains(&plan.views) {
        bail!(
            "at least {least} views of each training sample are compared, and the data have {}: add `\"views\"` to the data",
            plan.views
        );
    }
    for phase in [Phase::Val, Phase::Test] {
        if plan.phase(phase).is_some_and(|plan| plan.passes > 0) {
            bail!("{WITHOUT_VIEWS} (`{phase}`)");
        }
    }
    Ok(())
}

/// Refuses a temperature that is not above 0.
pub(crate) fn check_temperature(name: &str, temperature: f64) -> Result<()> {
    if temperature.is_finite() && temperature > 0.0 {
        return Ok(());
    }
    bail!("`{name}` is above 0, found {temperature}")
}
