//! Swaps the parameters for a published set, and back.

use safetensors::View;
use sconce_plugin_api::Point;

use super::swapped::{Swapped, SwappedTensor};
use crate::checkpoint::Weights;
use crate::run::failure::Leave;
use crate::run::{RunError, Trainer};

impl Trainer<'_> {
    /// Swaps the parameters for the published set.
    pub(in crate::run) fn swap(&mut self, set: &str, hook: &str) -> Result<(), Leave> {
        if let Some(swapped) = &self.sets.swapped {
            let message = format!(
                "can't swap the parameters for `{set}`: they are swapped for `{}` already, by `{}`",
                swapped.set, swapped.hook
            );
            return self.blame(hook, &message);
        }
        let swapped = match self.pairs(set) {
            Ok(pairs) => Swapped {
                set: set.to_owned(),
                hook: hook.to_owned(),
                pairs,
            },
            Err(message) => {
                let message = format!("can't swap the parameters for `{set}`: {message}");
                return self.blame(hook, &message);
            }
        };
        if let Err(error) = swapped.exchange() {
            return Err(RunError::task("swapping parameters", &self.position, error).into());
        }
        self.sets.swapped = Some(swapped);
        Ok(())
    }

    pub(in crate::run) fn pairs(&self, set: &str) -> Result<Vec<SwappedTensor>, String> {
        let mut pairs = Vec::new();
        for parameter in self.task.parameters().iter() {
            let name = format!("{set}/{}", parameter.name());
            let Some((_, published)) = self.shared.values.tensor_of(&name) else {
                continue;
            };
            let tensor = parameter.tensor();
            if published.dims() != tensor.dims() || published.dtype() != tensor.dtype() {
                return Err(format!(
                    "`{name}` is {:?} of shape {:?}, the parameter {:?} of shape {:?}",
                    published.dtype(),
                    published.dims(),
                    tensor.dtype(),
                    tensor.dims()
                ));
            }
            pairs.push(SwappedTensor {
                name: parameter.name().to_owned(),
                parameter: tensor.clone(),
                published,
            });
        }
        if pairs.is_empty() {
            let first = self.task.parameters().at(0).map_or("NAME", |p| p.name());
            return Err(format!(
                "no tensor of that set is published; publish them as `{set}/{first}` and so on"
            ));
        }
        Ok(pairs)
    }

    /// The set that was last evaluated, if it is not the parameters themselves and is still published.
    pub(in crate::run) fn measured_set(&self) -> Option<String> {
        let set = self.sets.measured.as_deref()?;
        self.pairs(set).is_ok().then(|| set.to_owned())
    }

    /// The weights that were last evaluated, if they differ from the parameters.
    pub(in crate::run) fn measured_weights(&self) -> Option<Weights> {
        let set = self.sets.measured.clone()?;
        let pairs = self.pairs(&set).ok()?;
        let differs = |pair: &SwappedTensor| pair.parameter.data() != pair.published.data();
        if !pairs.iter().any(differs) {
            return None;
        }
        let parameters = self.task.parameters().iter();
        let tensors = parameters.map(|parameter| {
            let pair = pairs.iter().find(|pair| pair.name == parameter.name());
            let tensor = pair.map_or(parameter.tensor(), |pair| &pair.published);
            (parameter.name().to_owned(), tensor.clone())
        });
        let tensors = tensors.collect();
        Some(Weights { set, tensors })
    }

    /// Swaps the parameters back.
    pub(in crate::run) fn swap_back(&mut self, hook: &str) -> Result<(), Leave> {
        if self.sets.swapped.is_none() {
            return self.blame(
                hook,
                "can't swap the parameters back: they are in their place",
            );
        }
        Ok(self.restore_swapped()?)
    }

    /// Swaps the parameters back if they are swapped.
    pub(in crate::run) fn restore_swapped(&mut self) -> Result<(), RunError> {
        match self.sets.swapped.take().map(|swapped| swapped.exchange()) {
            Some(Err(error)) => Err(RunError::task("swapping parameters", &self.position, error)),
            _ => Ok(()),
        }
    }

    /// Checks before a training batch that the parameters are not swapped.
    pub(in crate::run) fn expect_real_parameters(&mut self) -> Result<(), Leave> {
        let Some(swapped) = &self.sets.swapped else {
            return Ok(());
        };
        let message = format!(
            "the parameters are still swapped for `{}` when the training continues; ask for \
             `swap_back` at `{}` or before",
            swapped.set,
            Point::AfterCycle
        );
        let hook = swapped.hook.clone();
        self.restore_swapped()?;
        self.blame(&hook, &message)
    }
}
