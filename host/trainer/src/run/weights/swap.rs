//! Swaps the parameters for a published set, and back, and loads the parameters of a checkpoint.

use safetensors::View;
use sconce_lifecycle::Position;
use sconce_ops::host_copy;

use super::sets::Sets;
use super::swapped::{Swapped, pairs};
use crate::bridge::{BridgeState, SetTensor};
use crate::checkpoint::Weights;
use crate::parameters::Parameters;
use crate::run::RunError;
use crate::weights::Comparison;

impl Sets {
    /// Swaps the parameters for the published set; the inner error says why that is refused.
    pub(in crate::run) fn swap(
        &mut self,
        set: &str,
        hook: &str,
        parameters: &Parameters,
        shared: &BridgeState<'_>,
        position: &Position,
    ) -> Result<Result<(), String>, RunError> {
        if let Some(swapped) = &self.swapped {
            return Ok(Err(format!(
                "they are swapped for `{}` already, by `{}`",
                swapped.set, swapped.hook
            )));
        }
        let pairs = match pairs(set, parameters, shared) {
            Ok(pairs) => pairs,
            Err(reason) => return Ok(Err(reason)),
        };
        let swapped = Swapped {
            set: set.to_owned(),
            hook: hook.to_owned(),
            pairs,
        };
        let exchanged = swapped.exchange();
        exchanged.map_err(|error| RunError::task("swapping parameters", position, error))?;
        self.swapped = Some(swapped);
        Ok(Ok(()))
    }

    /// Swaps the parameters back if they are swapped.
    pub(in crate::run) fn swap_back(&mut self, position: &Position) -> Result<(), RunError> {
        let swapped = self.swapped.take();
        let restored = swapped.map_or(Ok(()), |swapped| swapped.exchange());
        restored.map_err(|error| RunError::task("swapping parameters", position, error))
    }

    /// The set that was last evaluated, if it is not the parameters themselves and is still published.
    pub(in crate::run) fn measured_set(
        &self,
        parameters: &Parameters,
        shared: &BridgeState<'_>,
    ) -> Option<String> {
        let set = self.measured.as_deref()?;
        pairs(set, parameters, shared)
            .is_ok()
            .then(|| set.to_owned())
    }

    /// The weights that were last evaluated, if they differ from the parameters.
    pub(in crate::run) fn measured_weights(
        &self,
        parameters: &Parameters,
        shared: &BridgeState<'_>,
    ) -> Option<Weights> {
        let set = self.measured.clone()?;
        let pairs = pairs(&set, parameters, shared).ok()?;
        let differs = |pair: &SetTensor| pair.parameter.data() != pair.published.data();
        if !pairs.iter().any(differs) {
            return None;
        }
        let tensors = parameters.iter().map(|parameter| {
            let pair = pairs.iter().find(|pair| pair.name == parameter.name());
            let tensor = pair.map_or(parameter.tensor(), |pair| &pair.published);
            (parameter.name().to_owned(), tensor.clone())
        });
        let tensors = tensors.collect();
        Some(Weights { set, tensors })
    }

    /// Loads the parameters of a checkpoint: those that were evaluated, or those of a set. If one of them does not fit,
    /// nothing is changed. Loading averages also replaces the published set they come from, which evaluations swap in for
    /// the parameters.
    pub(in crate::run) fn load(
        &self,
        weights: &Weights,
        parameters: &Parameters,
        shared: &BridgeState<'_>,
    ) -> Result<(), String> {
        let tensors = &weights.tensors;
        if let Some(swapped) = &self.swapped {
            return Err(format!("they are swapped for `{}`", swapped.set()));
        }
        let comparison = Comparison::of(parameters, tensors);
        if !comparison.is_complete() {
            return Err(format!("they don't fit the model: {comparison}"));
        }
        for parameter in parameters.iter() {
            let found = tensors.iter().find(|(name, _)| name == parameter.name());
            let set = found.map(|(_, tensor)| parameter.assign(tensor));
            set.unwrap_or(Ok(())).map_err(|error| error.to_string())?;
        }
        // Without such a published set, there is nothing that an evaluation could use instead.
        for pair in pairs(&weights.set, parameters, shared).unwrap_or_default() {
            let averages = pair.parameter.copy();
            let replaced =
                averages.and_then(|averages| host_copy::exchange(&pair.published, &averages));
            replaced.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
