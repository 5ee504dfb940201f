//! The adapters that a manifest asks for: their plan before the model is built, and their values after.

use crate::adapters::{self, AdapterError};
use crate::diagnostic::Diagnostic;
use crate::manifest::{AdaptConfig, Manifest};
use crate::parameters::Parameters;
use crate::parameters::adapters::AdapterPlan;
use crate::session::StartFailure;

/// The plan of the manifest's adapters, if it has any.
///
/// # Errors
///
/// If it is impossible, or there are no weights to begin with.
pub(super) fn adapter_plan(manifest: &Manifest) -> Result<Option<AdapterPlan>, StartFailure> {
    let (Some(config), Some(model)) = (&manifest.adapt, &manifest.model) else {
        return Ok(None);
    };
    if manifest.weights.is_none() {
        let problem =
            "adapters are trained beside a pretrained model, and the manifest has no `weights`";
        let hint = "`\"weights\": {\"file\": …}` names what is held";
        let place = manifest.place("adapt");
        return Err(StartFailure::usage(vec![
            Diagnostic::new(problem).at(place).hint(hint),
        ]));
    }
    let plan = adapters::plan(config, model);
    plan.map(Some).map_err(|error| unadapted(manifest, &error))
}

/// The error message for adapters that a model can't have.
pub(super) fn unadapted(manifest: &Manifest, error: &AdapterError) -> StartFailure {
    let place = manifest.place("adapt");
    StartFailure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
}

/// Trains what the base lacks, sets the adapters that the manifest begins with, and fingerprints the base.
pub(super) fn complete_adapters(
    manifest: &Manifest,
    parameters: &Parameters,
    new: &[String],
) -> Result<(), StartFailure> {
    let (Some(config), Some(adapters)) = (&manifest.adapt, parameters.adapters()) else {
        return Ok(());
    };
    for name in new {
        if let Ok(parameter) = parameters.get(name) {
            parameter.train();
        }
    }
    let begun = adapters::begin_magnitudes(parameters);
    begun.map_err(|error| unadapted(manifest, &error.into()))?;
    let AdaptConfig::Lora { file, .. } = config;
    if let Some(file) = file {
        adapters::load(file, parameters).map_err(|error| unadapted(manifest, &error))?;
    }
    let base = adapters::fingerprint(parameters);
    adapters.set_base(base.map_err(|error| unadapted(manifest, &error.into()))?);
    Ok(())
}
