//! The gradients of an update: lent to hooks, and summed over its batches.

use candle_core::backprop::GradStore;
use sconce_ops::host_copy;
use sconce_parameters::Parameters;
use sconce_parameters::gradients::Gradients;
use sconce_plugin_api::Point;

use super::error::{HostError, HostResult};
use super::loop_hooks::LoopHooks;

/// The gradients of the update in progress.
#[derive(Debug, Default)]
pub(super) struct Accumulation {
    sum: Option<Gradients>,
    /// Whether it has been found that no two gradients share memory.
    is_apart: bool,
}

impl Accumulation {
    /// Forgets the gradients of an update that was not finished.
    pub(super) fn forget(&mut self) {
        self.sum = None;
    }

    /// Shows a batch's gradients to the hooks, and adds them to those of its update. Returns the update's gradients in `store`, if it
    /// is complete and no hook skips it.
    pub(super) fn add(
        &mut self,
        mut store: GradStore,
        parameters: &Parameters,
        hooks: &mut LoopHooks<'_>,
    ) -> HostResult<Option<GradStore>> {
        if !self.is_apart {
            separate(&mut store, parameters)?;
            self.is_apart = true;
        }
        for parameter in parameters
            .iter()
            .filter(|entry| hooks.is_frozen(entry.name()))
        {
            store.remove(parameter.tensor());
        }
        if hooks.listens(Point::AfterBackward) {
            let shown = Gradients::from_store(parameters, &store);
            lend(
                shown,
                parameters,
                &mut store,
                hooks,
                LoopHooks::after_backward,
            )?;
        } else {
            hooks.after_backward()?;
        }
        let position = hooks.position();
        let batches = position.update_batches.end - position.update_batches.start;
        let is_complete = position.pass.updates;
        if batches > 1 {
            self.sum(&store, parameters, batches)?;
            if let Some(sum) = self.sum.take_if(|_| is_complete) {
                insert(&sum, parameters, &mut store);
            }
        }
        if !is_complete {
            return Ok(None);
        }
        let is_skipped = if hooks.listens(Point::BeforeUpdate) {
            let shown = Gradients::from_store(parameters, &store);
            lend(
                shown,
                parameters,
                &mut store,
                hooks,
                LoopHooks::before_update,
            )?
        } else {
            hooks.before_update()?
        };
        Ok((!is_skipped).then_some(store))
    }

    /// Adds a batch's part of the mean over its update.
    fn sum(&mut self, store: &GradStore, parameters: &Parameters, batches: u64) -> HostResult {
        let mut part = Gradients::from_store(parameters, store);
        part.scale(1.0 / batches as f64)?;
        match &mut self.sum {
            Some(sum) => sum.accumulate(&part)?,
            None => self.sum = Some(part),
        }
        Ok(())
    }
}

/// Shows gradients to the hooks of a call, and puts back into the store what they have replaced.
fn lend<'log, T>(
    shown: Gradients,
    parameters: &Parameters,
    store: &mut GradStore,
    hooks: &mut LoopHooks<'log>,
    call: impl FnOnce(&mut LoopHooks<'log>) -> HostResult<T>,
) -> HostResult<T> {
    hooks.shared().tensors.set_gradients(shown);
    let called = call(hooks);
    if let Some(back) = hooks.shared().tensors.take_gradients() {
        insert(&back, parameters, store);
    }
    called
}

/// Puts gradients into the store that are others than those in it.
fn insert(gradients: &Gradients, parameters: &Parameters, store: &mut GradStore) {
    for (index, parameter) in parameters.iter().enumerate() {
        let Some(gradient) = gradients.at(index) else {
            continue;
        };
        let known = store.get(parameter.tensor());
        if known.is_none_or(|known| known.id() != gradient.id()) {
            store.insert(parameter.tensor(), gradient.clone());
        }
    }
}

/// Copies gradients that share memory with an earlier one: a hook that changes one would change both. candle's own don't, but a
/// loop may put one tensor into its store twice.
fn separate(store: &mut GradStore, parameters: &Parameters) -> HostResult {
    let mut seen = std::collections::BTreeSet::new();
    for parameter in parameters.iter() {
        let Some(gradient) = store.get(parameter.tensor()) else {
            continue;
        };
        if gradient.dims() != parameter.tensor().dims() {
            return Err(HostError::Loop(format!(
                "the gradient of `{}` has the shape {:?}, the parameter {:?}",
                parameter.name(),
                gradient.dims(),
                parameter.tensor().dims()
            )));
        }
        if !seen.insert(host_copy::storage_address(gradient)) {
            let copy = gradient.copy()?;
            store.insert(parameter.tensor(), copy);
        }
    }
    Ok(())
}
