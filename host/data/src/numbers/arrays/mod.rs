//! Arrays of inputs and targets, from NumPy or safetensors files.

mod array;
mod config;
mod element;
mod header;
mod kept;
mod npy;
pub(crate) mod npy_vector;
mod safetensors;
mod scaling;
mod survey;
mod targets;
mod transform;

use std::path::Path;
use std::sync::Arc;

pub use crate::error::ArrayError;
pub use config::{NpyConfig, NpySplit, SafetensorsConfig};
pub use survey::{ArraySurvey, survey_npy, survey_safetensors};
pub use transform::ArrayTransform;

use super::{NumberDataset, Samples, TargetValues};
use crate::dataset::fitted::Fitted;
use crate::split::{self, OwnFiles, Part};
use crate::{Dataset, TargetScale, TargetScaling, Targets};
use array::Array;
use scaling::Scaling;
use transform::ArrayFormat;

/// Reads two NumPy files. Relative paths start at `base`; splits come from `seed`.
pub(crate) fn load_npy(
    config: &NpyConfig,
    base: &Path,
    seed: u64,
) -> Result<Fitted<ArrayTransform>, crate::DataError> {
    let read = |inputs: &Path, targets: Option<&Path>| -> Result<ArrayPair, crate::DataError> {
        let targets = targets.map(|targets| npy::read(&base.join(targets)));
        ArrayPair::new(npy::read(&base.join(inputs))?, targets.transpose()?)
    };
    let main = read(&config.inputs, config.targets.as_deref())?;
    let total = main.inputs.count();
    let of_phase = |split: Option<&NpySplit>, phase| -> Result<Phase, crate::DataError> {
        let part = npy_part(split, phase, total, config.targets.is_some())?;
        part.try_map(|(inputs, targets)| read(inputs, targets))
    };
    let recipe = Recipe {
        classes: config.classes.as_deref(),
        standardise: config.standardise,
        target_scale: config.target_scaling,
        stratified: config.held_out.stratified,
        seed: config.held_out.seed(seed),
    };
    let val = of_phase(config.held_out.val.as_ref(), "val")?;
    let test = of_phase(config.held_out.test.as_ref(), "test")?;
    recipe.splits(&main, val, test, ArrayFormat::Npy)
}

/// Reads a safetensors file. Relative paths start at `base`; splits come from `seed`.
pub(crate) fn load_safetensors(
    config: &SafetensorsConfig,
    base: &Path,
    seed: u64,
) -> Result<Fitted<ArrayTransform>, crate::DataError> {
    let read = |file: &Path| -> Result<ArrayPair, crate::DataError> {
        let (file, inputs) = (base.join(file), config.inputs.as_str());
        let Some(targets) = &config.targets else {
            let [inputs] = safetensors::read(&file, [inputs])?;
            return ArrayPair::new(inputs, None);
        };
        let [inputs, targets] = safetensors::read(&file, [inputs, targets])?;
        ArrayPair::new(inputs, Some(targets))
    };
    let main = read(&config.file)?;
    let total = main.inputs.count();
    let recipe = Recipe {
        classes: config.classes.as_deref(),
        standardise: config.standardise,
        target_scale: config.target_scaling,
        stratified: config.held_out.stratified,
        seed: config.held_out.seed(seed),
    };
    let [val, test] = config.held_out.sources(total)?;
    let (val, test) = (val.try_map(read)?, test.try_map(read)?);
    let inputs = config.inputs.clone();
    recipe.splits(&main, val, test, ArrayFormat::Safetensors { inputs })
}

/// Source of a phase's samples; its own files have targets if the training has any.
fn npy_part<'a>(
    split: Option<&'a NpySplit>,
    phase: &'static str,
    total: usize,
    has_targets: bool,
) -> Result<Part<(&'a Path, Option<&'a Path>)>, crate::DataError> {
    let Some(split) = split else {
        return Ok(Part::Nothing);
    };
    let own = match (split.inputs.as_deref(), split.targets.as_deref()) {
        (None, None) => OwnFiles::Unsaid,
        (Some(inputs), targets) if targets.is_some() == has_targets => {
            OwnFiles::Said((inputs, targets))
        }
        _ => OwnFiles::Half,
    };
    let keys = if has_targets {
        "`inputs` with `targets`"
    } else {
        "`inputs` without `targets`, as in the training"
    };
    split::one_of(phase, total, split.amount, own, keys)
}

/// Source of a phase's samples.
type Phase = Part<ArrayPair>;

/// An array of inputs with its targets; without any, the inputs are their own.
struct ArrayPair {
    inputs: Array,
    targets: Option<Array>,
}

impl ArrayPair {
    fn new(inputs: Array, targets: Option<Array>) -> Result<ArrayPair, crate::DataError> {
        if let Some(targets) = &targets
            && inputs.count() != targets.count()
        {
            return Err(ArrayError::CountMismatch {
                inputs: inputs.count(),
                targets: targets.count(),
                inputs_location: inputs.place,
                targets_location: targets.place.clone(),
            }
            .into());
        }
        if u32::try_from(inputs.count()).is_err() {
            return Err(crate::DataError::TooMany(inputs.count() as u64));
        }
        // They are looked at as a whole, and few.
        let targets = targets.map(Array::own);
        Ok(ArrayPair { inputs, targets })
    }

    fn samples(&self, targets: &Targets) -> Result<Samples, ArrayError> {
        let values = match &self.targets {
            Some(array) => targets::values(array, targets)?,
            None => TargetValues::Inputs,
        };
        samples(&self.inputs, values)
    }
}

fn samples(inputs: &Array, values: TargetValues) -> Result<Samples, ArrayError> {
    Ok(Samples {
        inputs: inputs.inputs()?,
        shape: inputs.sample_shape().to_vec(),
        values,
        count: inputs.count(),
    })
}

/// Common options for turning arrays into data sets.
struct Recipe<'a> {
    classes: Option<&'a [String]>,
    standardise: bool,
    target_scale: Option<TargetScale>,
    stratified: bool,
    seed: u64,
}

impl Recipe<'_> {
    fn splits(
        &self,
        main: &ArrayPair,
        val: Phase,
        test: Phase,
        format: ArrayFormat,
    ) -> Result<Fitted<ArrayTransform>, crate::DataError> {
        let targets = match &main.targets {
            Some(array) => targets::targets(array, self.classes)?,
            None => targets::inputs(&main.inputs, self.classes)?,
        };
        let mut all = main.samples(&targets)?;
        let parts = match (self.stratified, &targets, &all.values) {
            (false, ..) => split::split(self.seed, all.count, val.taken(), test.taken())?,
            (true, Targets::Class(_), TargetValues::Classes(classes)) => {
                split::stratified(self.seed, classes, val.taken(), test.taken())?
            }
            (true, ..) => return Err(crate::DataError::NotStratified),
        };
        let target_scaling = match self.target_scale {
            None => None,
            Some(scale) => {
                let numbers = targets::scalable(main.targets.as_ref(), &all.values, scale)?;
                let width = targets.outputs();
                Some(TargetScaling::fit(scale, numbers, width, &parts.train))
            }
        };
        let scaling = if self.standardise {
            let size = all.shape.iter().product();
            Scaling::of(&all.inputs, size, &parts.train, all.shape.len() == 1)
        } else {
            Scaling::none()
        };
        scaling.apply_to(&mut all.inputs);
        let all = Arc::new(all);
        let dataset = |samples: &Arc<Samples>, indices| -> Arc<dyn Dataset> {
            let dataset = NumberDataset::new(Arc::clone(samples), indices, targets.clone());
            Arc::new(dataset.of_file())
        };
        let phase = |phase: Phase, indices| -> Result<Option<Arc<dyn Dataset>>, crate::DataError> {
            Ok(match phase {
                Part::Nothing => None,
                Part::Count(_) | Part::Fold(_) => Some(dataset(&all, indices)),
                Part::Own(pair) => {
                    let mut own = pair.samples(&targets)?;
                    if let Some(scale) = self.target_scale {
                        targets::scalable(pair.targets.as_ref(), &own.values, scale)?;
                    }
                    same_shape(main, &pair)?;
                    scaling.apply_to(&mut own.inputs);
                    let indices = (0..own.count as u32).collect();
                    Some(dataset(&Arc::new(own), indices))
                }
            })
        };
        Ok(Fitted {
            val: phase(val, parts.val)?,
            test: phase(test, parts.test)?,
            train: dataset(&all, parts.train),
            learnt: ArrayTransform {
                format,
                shape: all.shape.clone(),
                scaling: scaling.clone(),
                target_scaling,
                targets: targets.clone(),
                predicts_inputs: main.targets.is_none(),
            },
        })
    }
}

/// Checks that a phase's separate samples have the training samples' shapes.
fn same_shape(training: &ArrayPair, own: &ArrayPair) -> Result<(), ArrayError> {
    let targets = training.targets.iter().zip(&own.targets);
    for (training, own) in std::iter::once((&training.inputs, &own.inputs)).chain(targets) {
        if training.sample_shape() != own.sample_shape() {
            return Err(ArrayError::OtherShape {
                place: own.place.clone(),
                wanted: training.sample_shape().to_vec(),
                found: own.sample_shape().to_vec(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
