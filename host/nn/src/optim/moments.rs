//! Optimizer state per parameter, and its conversion to and from checkpoints.

use candle_core::{DType, Device, Tensor};

use super::{MomentStorage, OptimizerError};
use crate::parameters::Parameters;

/// Moments of all parameters: for each entry of the registry, one per name.
#[derive(Debug)]
pub(super) struct Moments {
    names: &'static [&'static str],
    pub(super) storage: MomentStorage,
    /// Whether a stepped parameter may lack moments, as with SGD without momentum.
    optional: bool,
    entries: Vec<ParameterMoments>,
    /// Number of tensors.
    count: usize,
}

/// Optimizer state of one parameter.
#[derive(Debug, Default)]
pub(super) struct ParameterMoments {
    /// Number of steps so far.
    pub(super) steps: u64,
    /// Moments of the parameter's shape, in the type in which they are stored; none until first used.
    pub(super) moments: [Option<Tensor>; 3],
}

impl Moments {
    /// Creates the state for moments of these names, at most three, without any entries.
    pub(super) fn new(names: &'static [&'static str]) -> Moments {
        Moments {
            names,
            storage: MomentStorage::F32,
            optional: false,
            entries: Vec::new(),
            count: 0,
        }
    }

    /// Creates the state for moments that a stepped parameter may lack.
    pub(super) fn optional(names: &'static [&'static str]) -> Moments {
        Moments {
            optional: true,
            ..Moments::new(names)
        }
    }

    /// Returns the state of the registry's entry at `index`.
    pub(super) fn entry(&mut self, index: usize) -> &mut ParameterMoments {
        if self.entries.len() <= index {
            self.entries
                .resize_with(index + 1, ParameterMoments::default);
        }
        &mut self.entries[index]
    }

    /// Returns the state of the registry's entry at `index`, with missing moments created as zeros.
    pub(super) fn state_with_moments(
        &mut self,
        index: usize,
        parameter: &Tensor,
    ) -> candle_core::Result<&mut ParameterMoments> {
        let wanted = self.names.len();
        let dtype = self.dtype(parameter);
        let mut fresh = 0;
        for place in self.entry(index).moments.iter_mut().take(wanted) {
            if place.is_none() {
                *place = Some(Tensor::zeros(parameter.shape(), dtype, parameter.device())?);
                fresh += 1;
            }
        }
        self.count += fresh;
        Ok(self.entry(index))
    }

    /// The type in which the moments of a parameter are stored.
    fn dtype(&self, parameter: &Tensor) -> DType {
        match self.storage {
            MomentStorage::F32 => parameter.dtype(),
            MomentStorage::Bf16 => DType::BF16,
        }
    }

    /// Returns the number of tensors, which grows at first steps.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the tensors by name, e.g. `fc1.weight.exp_avg`, sharing their storage.
    pub(super) fn tensors(&self, parameters: &Parameters) -> Vec<(String, Tensor)> {
        let mut tensors = Vec::new();
        for (parameter, entry) in parameters.iter().zip(&self.entries) {
            for (name, moment) in self.names.iter().zip(&entry.moments) {
                if let Some(moment) = moment {
                    tensors.push((format!("{}.{name}", parameter.name()), moment.clone()));
                }
            }
        }
        tensors
    }

    /// Copies the state by name: `fc1.weight.step` (an i64 scalar) and `fc1.weight.exp_avg`.
    pub(super) fn save(
        &self,
        parameters: &Parameters,
    ) -> Result<Vec<(String, Tensor)>, OptimizerError> {
        let mut state = Vec::new();
        for (parameter, entry) in parameters.iter().zip(&self.entries) {
            if entry.steps == 0 {
                continue;
            }
            let steps = Tensor::new(entry.steps.cast_signed(), &Device::Cpu)?;
            state.push((format!("{}.step", parameter.name()), steps));
            for (name, moment) in self.names.iter().zip(&entry.moments) {
                if let Some(moment) = moment {
                    state.push((format!("{}.{name}", parameter.name()), moment.copy()?));
                }
            }
        }
        Ok(state)
    }

    /// Restores a result of `save`; after an error the state is unchanged.
    pub(super) fn load(
        &mut self,
        parameters: &Parameters,
        state: &[(String, Tensor)],
    ) -> Result<(), OptimizerError> {
        let mut restored = Moments {
            entries: Vec::new(),
            count: 0,
            ..*self
        };
        for (name, tensor) in state {
            restored.load_one(parameters, name, tensor)?;
        }
        restored.check_complete(parameters)?;
        *self = restored;
        Ok(())
    }

    fn load_one(
        &mut self,
        parameters: &Parameters,
        name: &str,
        tensor: &Tensor,
    ) -> Result<(), OptimizerError> {
        let unknown = || OptimizerError::UnknownState(name.to_owned());
        let (parameter, kind) = name.rsplit_once('.').ok_or_else(unknown)?;
        let index = parameters.index_of(parameter).map_err(|_| unknown())?;
        let parameter = parameters.at(index).ok_or_else(unknown)?.tensor();
        if kind == "step" {
            self.entry(index).steps = steps(name, tensor)?;
            return Ok(());
        }
        let place = self.names.iter().position(|known| *known == kind);
        let place = place.ok_or_else(unknown)?;
        check_shape(name, tensor, parameter.dims())?;
        if !tensor.dtype().is_float() {
            return Err(OptimizerError::StateType {
                name: name.to_owned(),
                found: tensor.dtype().as_str(),
            });
        }
        let restored = tensor
            .to_dtype(self.dtype(parameter))?
            .to_device(parameter.device())?
            .contiguous()?
            .copy()?;
        if let Some(moment) = self.entry(index).moments.get_mut(place) {
            *moment = Some(restored);
            self.count += 1;
        }
        Ok(())
    }

    /// Checks that no moment or number of steps is missing: training would continue with different
    /// numbers, without an error.
    fn check_complete(&self, parameters: &Parameters) -> Result<(), OptimizerError> {
        for (parameter, entry) in parameters.iter().zip(&self.entries) {
            let missing =
                |kind| OptimizerError::MissingState(format!("{}.{kind}", parameter.name()));
            if entry.steps == 0 && entry.moments.iter().any(Option::is_some) {
                return Err(missing("step"));
            }
            let needs = entry.steps > 0 && !self.optional && parameter.tensor().elem_count() > 0;
            for (name, moment) in self.names.iter().zip(&entry.moments) {
                if needs && moment.is_none() {
                    return Err(missing(name));
                }
            }
        }
        Ok(())
    }
}

/// Largest plausible number of steps.
const MOST: u64 = 1 << 53;

fn steps(name: &str, tensor: &Tensor) -> Result<u64, OptimizerError> {
    check_shape(name, tensor, &[])?;
    let found: i64 = tensor.to_dtype(DType::I64)?.to_scalar()?;
    let steps = u64::try_from(found).ok().filter(|steps| *steps <= MOST);
    steps.ok_or_else(|| OptimizerError::StateSteps {
        name: name.to_owned(),
        found,
    })
}

fn check_shape(name: &str, tensor: &Tensor, wanted: &[usize]) -> Result<(), OptimizerError> {
    if tensor.dims() == wanted {
        return Ok(());
    }
    Err(OptimizerError::StateShape {
        name: name.to_owned(),
        found: tensor.dims().to_vec(),
        wanted: wanted.to_vec(),
    })
}
