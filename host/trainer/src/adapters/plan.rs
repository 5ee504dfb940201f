//! The plan of a manifest's adapters, and whether the model can have them.

use sconce_base::nearest::nearest;
use sconce_base::patterns::Patterns;

use super::AdapterError;
use crate::manifest::AdaptConfig;
use crate::nn::ModelConfig;
use crate::parameters::adapters::{AdapterOptions, AdapterPlan};
use crate::parameters::{ParameterRole, Parameters};

/// Ending of the names of weights, below those of their modules.
const WEIGHT: &str = ".weight";

/// The plan of a manifest's adapters for its model.
///
/// # Errors
///
/// If a number is out of range, a pattern is invalid, or the modules are not named and the model has no usual ones.
pub fn plan(config: &AdaptConfig, model: &ModelConfig) -> Result<AdapterPlan, AdapterError> {
    let AdaptConfig::Lora {
        rank,
        alpha,
        dropout,
        modules,
        train,
        rslora,
        dora,
        ..
    } = config;
    let refused = |text: &str| Err(AdapterError::Plan(text.to_owned()));
    if *rank == 0 {
        return refused("`adapt.rank` is 0: an adapter has a column at least");
    }
    if !alpha.is_finite() {
        return refused("`adapt.alpha` is not a number");
    }
    if !(0.0..1.0).contains(dropout) {
        return refused("`adapt.dropout` is a fraction from 0 to below 1");
    }
    let modules = if modules.is_empty() {
        let usual = model.adapted_modules();
        if usual.is_empty() {
            return refused(
                "`adapt.modules` is missing: models of this kind have no usual places for adapters. `sconce summary` prints \
                 the names of weights; patterns are of these without `.weight`",
            );
        }
        usual.iter().map(|module| (*module).to_owned()).collect()
    } else {
        modules.clone()
    };
    let patterns = |key: &str, written: &[String]| {
        let patterns = Patterns::new(written);
        patterns.map_err(|error| AdapterError::Plan(format!("`adapt.{key}`: {error}")))
    };
    let width = *rank as f64;
    Ok(AdapterPlan {
        modules: patterns("modules", &modules)?,
        trained: if train.is_empty() {
            None
        } else {
            Some(patterns("train", train)?)
        },
        options: AdapterOptions {
            rank: *rank,
            scale: alpha / if *rslora { width.sqrt() } else { width },
            dropout: *dropout,
            dora: *dora,
        },
    })
}

/// Checks that each pattern of a plan has found something in the model that has been registered, and only what can have an
/// adapter.
///
/// # Errors
///
/// If not, with the module.
pub fn check(parameters: &Parameters) -> Result<(), AdapterError> {
    let Some(adapters) = parameters.adapters() else {
        return Ok(());
    };
    let plan = adapters.plan();
    let has_adapter = |name: &str| adapters.modules().iter().any(|module| module.name == name);
    let weights = || {
        let own = parameters
            .iter()
            .filter(|parameter| parameter.role() == ParameterRole::Base);
        own.filter_map(|parameter| {
            let module = parameter.name().strip_suffix(WEIGHT)?;
            Some((module, parameter.tensor().rank()))
        })
    };
    // Of vectors, as those of norms, a wide pattern may find some.
    let refused = weights()
        .find(|(name, rank)| *rank > 1 && plan.modules.matches(name) && !has_adapter(name));
    if let Some((name, _)) = refused {
        return Err(AdapterError::Plan(format!(
            "`{name}` can't have an adapter: linear layers and attention's projections can, and no embeddings, convolutions \
             or weights that are tied to another's; leave it out by `\"!{name}\"` in `adapt.modules`"
        )));
    }
    let adapted = adapters.modules().iter().map(|module| module.name.as_str());
    if let Some(idle) = plan.modules.idle(adapted) {
        let names = weights()
            .filter(|(_, rank)| *rank == 2)
            .map(|(name, _)| name);
        let hint = match nearest(idle, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "patterns are of the names of weights without `.weight`".to_owned(),
        };
        return Err(AdapterError::Plan(format!(
            "no linear layer of the model is called `{idle}`; {hint}"
        )));
    }
    let trained = parameters
        .iter()
        .filter(|parameter| parameter.role() != ParameterRole::Adapter);
    let names = trained.map(crate::parameters::Parameter::name);
    match plan.trained.as_ref().and_then(|plan| plan.idle(names)) {
        None => Ok(()),
        Some(idle) => Err(AdapterError::Plan(format!(
            "no parameter of the model is called `{idle}`, as `adapt.train` has it"
        ))),
    }
}
