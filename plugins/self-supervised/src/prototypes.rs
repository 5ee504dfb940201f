//! Prototypes: the weight of a model's last layer, whose rows are directions; and what the layer before it gives.

use sconce_plugin_api::moment::ChangesParameters;
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::tensor::TensorMut;
use sconce_plugin_api::{Collection, Point};

use crate::collapse::length;
use crate::losses::Rows;
use crate::outputs::table;
use crate::teacher::Teacher;

/// The prototypes of a model.
pub(crate) struct Prototypes {
    module: String,
    weight: String,
}

impl Prototypes {
    /// Those of a module, which there must be.
    pub(crate) fn new(module: &str, setup: &Setup<'_>) -> Result<Prototypes> {
        check_module("prototypes", module, setup)?;
        Ok(Prototypes {
            module: module.to_owned(),
            weight: format!("{module}.weight"),
        })
    }

    /// Name of the parameter.
    pub(crate) fn weight(&self) -> &str {
        &self.weight
    }

    /// Refuses prototypes with a bias, by which scores are not those of directions.
    pub(crate) fn check(&self, task: &TaskView<'_>) -> Result<()> {
        let bias = format!("{}.bias", self.module);
        let names: Vec<String> = task.parameters().map(|one| one.name().to_owned()).collect();
        if names.contains(&bias) {
            bail!(
                "prototypes have no bias: give the layer `{}` `\"bias\": false`",
                self.module
            );
        }
        if !names.contains(&self.weight) {
            bail!(
                "the module `{}` has no weight: prototypes are a `linear` layer",
                self.module
            );
        }
        Ok(())
    }

    /// Divides each by its length.
    pub(crate) fn normalise(&self, task: &mut At<'_, impl ChangesParameters>) -> Result<()> {
        let mut weight = task.parameter_mut(&self.weight)?;
        normalise(&mut weight)
    }

    /// Those of the teacher, or without one the model's, row by row; and their width.
    pub(crate) fn values(
        &self,
        task: &TaskView<'_>,
        teacher: &Teacher,
    ) -> Result<(Vec<f32>, usize)> {
        let weight = if teacher.is_none() {
            task.tensors(Collection::Parameters).named(&self.weight)?
        } else {
            let member = teacher.member(&self.weight);
            task.tensors(Collection::Published).named(&member)?
        };
        let (values, width) = table(&weight)?;
        Ok((values.into_owned(), width))
    }

    /// Divides each of the teacher's, if there is one, by its length.
    pub(crate) fn normalise_published(
        &self,
        task: &mut At<'_, impl ChangesParameters>,
        teacher: &Teacher,
    ) -> Result<()> {
        if teacher.is_none() {
            return Ok(());
        }
        let mut weight = task.published_tensor_mut(&teacher.member(&self.weight))?;
        normalise(&mut weight)
    }

    /// Replaces them by directions, row by row.
    pub(crate) fn set(
        &self,
        task: &mut At<'_, impl ChangesParameters>,
        directions: &[f32],
    ) -> Result<()> {
        let mut weight = task.parameter_mut(&self.weight)?;
        let found = weight.as_mut_slice::<f32>()?;
        if found.len() != directions.len() {
            bail!(
                "the prototypes `{}` have {} elements, and clusters {}",
                self.weight,
                found.len(),
                directions.len()
            );
        }
        found.copy_from_slice(directions);
        Ok(())
    }
}

fn normalise(weight: &mut TensorMut<'_>) -> Result<()> {
    let width = match weight.view().shape() {
        &[_, width] => usize::try_from(width).unwrap_or_default().max(1),
        shape => bail!("prototypes are rows of numbers, found the shape {shape:?}"),
    };
    for row in weight.as_mut_slice::<f32>()?.chunks_exact_mut(width) {
        let by_length = length(row).recip();
        for x in row {
            *x = (f64::from(*x) * by_length) as f32;
        }
    }
    Ok(())
}

/// Refuses a module that the model lacks.
pub(crate) fn check_module(option: &str, module: &str, setup: &Setup<'_>) -> Result<()> {
    if let Some(plan) = setup.plan()?
        && !plan.modules.iter().any(|known| known.name == module)
    {
        bail!("`{option}`: the model has no module `{module}`");
    }
    Ok(())
}

/// What a module gives for a batch: rows of numbers, of all views.
pub(crate) struct ModuleOutputs {
    module: String,
    values: Vec<f32>,
    width: usize,
}

impl ModuleOutputs {
    /// Of a module, which there must be and is the only one that the hook listens at; without a name, of none.
    pub(crate) fn new(module: &str, setup: &Setup<'_>) -> Result<ModuleOutputs> {
        if module.is_empty() {
            setup.leave_out(Point::ModuleForward);
        } else {
            check_module("embeddings", module, setup)?;
            setup.select_modules(&[module])?;
        }
        Ok(ModuleOutputs {
            module: module.to_owned(),
            values: Vec::new(),
            width: 0,
        })
    }

    /// Forgets those of the last batch.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
    }

    /// Notes the module's outputs, if it is the one.
    pub(crate) fn note(&mut self, task: &TaskView<'_>, module: &Module<'_>) -> Result<()> {
        if module.name() != self.module || task.phase() != Phase::Train {
            return Ok(());
        }
        let outputs = module.output()?;
        let (values, width) = table(&outputs)?;
        self.values.extend_from_slice(&values);
        self.width = width;
        Ok(())
    }

    /// Those of the batch.
    pub(crate) fn rows(&self) -> Result<Rows<'_>> {
        if self.width == 0 {
            bail!(
                "the module `{}` has not computed in this batch",
                self.module
            );
        }
        Ok(Rows::new(&self.values, self.width)?)
    }

    /// Columns of its outputs; 0 before the first.
    pub(crate) fn width(&self) -> usize {
        self.width
    }
}
