//! Whether a model fits views of several sizes: it is built for each of them, and must have the same shapes.

use candle_core::{DType, Device};

use super::adapt::adapter_plan;
use super::model_failure::inputs_of_views;
use crate::data::{Splits, ViewGroup};
use crate::diagnostic::Diagnostic;
use crate::manifest::Manifest;
use crate::nn::{Network, Signal};
use crate::parameters::Parameters;
use crate::session::StartFailure;

/// How a model fits views of any size.
const HINT: &str = "no parameter and no output may depend on the size: `adaptive-avg-pool2d` before `flatten`, and a table of \
     `position-embedding` with `positions` enough for the largest views";

/// Has the model, which is built for the first views, take those of further sizes, too.
///
/// # Errors
///
/// If it doesn't fit some of them, with the entry, its size and the layer.
pub(super) fn take_all_views(
    manifest: &Manifest,
    data: &Splits,
    parameters: &Parameters,
    network: &mut Network,
) -> Result<(), StartFailure> {
    let Some(model) = &manifest.model else {
        return Ok(());
    };
    for (views, inputs) in inputs_of_views(data).into_iter().skip(1) {
        // Freed before the run, which needs as much for gradients.
        let mut others = Parameters::new(manifest.seed, DType::F32, &Device::Cpu);
        if let Some(plan) = adapter_plan(manifest)? {
            others.adapt(plan);
        }
        let reason = match model.build(&mut others, &inputs, data.train.targets()) {
            Ok(other) => difference((parameters, network.output()), (&others, other.output())),
            Err(error) => Some(error.to_string()),
        };
        if let Some(reason) = reason {
            return Err(misfit(manifest, &views, &reason));
        }
        network.take_also(&inputs.shape);
    }
    Ok(())
}

/// What differs in the same model for views of another size, if anything does.
fn difference(
    (parameters, output): (&Parameters, &Signal),
    (others, other_output): (&Parameters, &Signal),
) -> Option<String> {
    for (one, other) in parameters.iter().zip(others.iter()) {
        let (shape, wanted) = (one.tensor().dims(), other.tensor().dims());
        if shape != wanted {
            return Some(format!(
                "for them the parameter `{}` would have the shape {wanted:?}, not {shape:?}",
                one.name()
            ));
        }
    }
    (output.shape != other_output.shape).then(|| {
        let (shape, found) = (&output.shape, &other_output.shape);
        format!("its output for them has the shape {found:?}, not {shape:?}")
    })
}

fn misfit(manifest: &Manifest, views: &ViewGroup, reason: &str) -> StartFailure {
    let entry = views.entry;
    let size = views.shape.get(1..).unwrap_or_default();
    let problem = format!(
        "`views[{entry}]` has the size {size:?}, which the model does not fit as it is for the first views: {reason}"
    );
    let place = manifest.place(&format!("data.views[{entry}]"));
    StartFailure::usage(vec![Diagnostic::new(problem).at(place).hint(HINT)])
}
