//! A trained model run with samples: its outputs, or those of one of its modules.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use sconce_base::nearest::nearest;

use crate::allocator;
use crate::data::{Batch, Dataset, order};
use crate::diagnostic::Diagnostic;
use crate::nn::{ModuleInfo, ModuleOutput, Pass};
use crate::session::StartFailure;
use crate::task::mean_of_views;

/// A forward pass of a batch.
type Forward<'a> = dyn FnMut(&Batch, &mut Pass<'_>) -> candle_core::Result<Tensor> + 'a;

/// A model, and the samples that it is run with.
pub(super) struct ModelRun<'a> {
    pub(super) data: Arc<dyn Dataset>,
    /// Its modules.
    pub(super) modules: Vec<ModuleInfo>,
    /// Samples in a batch, at least one.
    pub(super) size: usize,
    pub(super) device: Device,
    pub(super) forward: &'a mut Forward<'a>,
}

/// Samples as they are in evaluations.
pub(super) fn without_augmentation(data: Arc<dyn Dataset>) -> Arc<dyn Dataset> {
    data.plain().unwrap_or(data)
}

impl ModelRun<'_> {
    /// Gives `see` the outputs of each batch, the mean of several views, or those of a module, as long as it wants more.
    pub(super) fn outputs(
        self,
        module: Option<&str>,
        mut see: impl FnMut(&Batch, &Tensor) -> Result<bool, StartFailure>,
    ) -> Result<(), StartFailure> {
        let mut tap = module
            .map(|name| output_of(name, &self.modules))
            .transpose()?;
        allocator::keep_memory_for_steps();
        for indices in order::natural(self.data.len()).chunks(self.size) {
            let mut batch = self.data.gather(indices, 0)?;
            batch.inputs = batch.inputs.to_device(&self.device)?;
            let outputs = if let Some(tap) = &mut tap {
                (self.forward)(&batch, &mut Pass::evaluation().with_taps(tap))?;
                tap.take()?
            } else {
                let outputs = (self.forward)(&batch, &mut Pass::evaluation())?;
                mean_of_views(&outputs, batch.len(), self.data.targets())?
            };
            if !see(&batch, &outputs)? {
                break;
            }
        }
        Ok(())
    }
}

/// The output of the module of this name, which must be one of `modules`.
fn output_of<'a>(name: &'a str, modules: &[ModuleInfo]) -> Result<ModuleOutput<'a>, StartFailure> {
    let names = || modules.iter().map(|module| module.name.as_str());
    if names().any(|known| known == name) {
        return Ok(ModuleOutput::of(name));
    }
    let problem = format!("the model has no module `{name}`");
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!(
            "its modules are `{}`",
            names().collect::<Vec<_>>().join("`, `")
        ),
    };
    Err(StartFailure::usage(vec![
        Diagnostic::new(problem).hint(hint),
    ]))
}
