//! The optimizer's numbers beside each parameter, and their way into and out of checkpoints.

use candle_core::{DType, Device, Shape, Tensor};

use super::Error;
use super::sweep::Float;
use crate::parameters::{Parameter, Parameters};

/// One number for each number of a parameter, in its type; empty until first used.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    pub(super) f32: Vec<f32>,
    pub(super) f64: Vec<f64>,
}

impl Moment {
    /// The numbers, zeros at first.
    pub(super) fn values<T: Float>(&mut self, count: usize) -> &mut [T] {
        let values = T::of(self);
        values.resize(count, T::ZERO);
        values
    }

    /// Whether it has ever been used.
    pub(super) fn is_used(&self) -> bool {
        !self.f32.is_empty() || !self.f64.is_empty()
    }
}

/// The moments of all parameters: for each entry of the registry, one for each name.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    names: &'static [&'static str],
    entries: Vec<Entry>,
}

/// What belongs to one parameter.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    /// How often it has been stepped.
    pub(super) steps: u64,
    pub(super) moments: [Moment; 2],
}

impl Moments {
    /// Moments of these names, at most two, for no parameter yet.
    pub(super) fn new(names: &'static [&'static str]) -> Moments {
        Moments {
            names,
            entries: Vec::new(),
        }
    }

    /// What belongs to the registry's entry at `index`.
    pub(super) fn entry(&mut self, index: usize) -> &mut Entry {
        if self.entries.len() <= index {
            self.entries.resize(index + 1, Entry::default());
        }
        &mut self.entries[index]
    }

    /// Everything by name: `fc1.weight.step` (an i64 scalar) and `fc1.weight.exp_avg`.
    pub(super) fn save(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, Error> {
        let mut state = Vec::new();
        for (parameter, entry) in parameters.iter().zip(&self.entries) {
            if entry.steps == 0 {
                continue;
            }
            let steps = Tensor::new(entry.steps.cast_signed(), &Device::Cpu)?;
            state.push((format!("{}.step", parameter.name()), steps));
            for (name, moment) in self.names.iter().zip(&entry.moments) {
                if moment.is_used() {
                    let name = format!("{}.{name}", parameter.name());
                    state.push((name, tensor(moment, parameter)?));
                }
            }
        }
        Ok(state)
    }

    /// Restores what `save` gave.
    pub(super) fn load(
        &mut self,
        parameters: &Parameters,
        state: &[(String, Tensor)],
    ) -> Result<(), Error> {
        let mut restored = Moments::new(self.names);
        for (name, tensor) in state {
            let unknown = || Error::UnknownState(name.clone());
            let (parameter, kind) = name.rsplit_once('.').ok_or_else(unknown)?;
            let index = parameters
                .iter()
                .position(|known| known.name() == parameter)
                .ok_or_else(unknown)?;
            let entry = restored.entry(index);
            if kind == "step" {
                let steps: i64 = tensor.to_dtype(DType::I64)?.to_scalar()?;
                entry.steps = u64::try_from(steps).map_err(|_| unknown())?;
                continue;
            }
            let place = self.names.iter().position(|known| *known == kind);
            let moment = place.and_then(|place| entry.moments.get_mut(place));
            let wanted = parameters.at(index).ok_or_else(unknown)?.tensor();
            if tensor.elem_count() != wanted.elem_count() {
                return Err(Error::StateSize {
                    name: name.clone(),
                    found: tensor.elem_count(),
                    wanted: wanted.elem_count(),
                });
            }
            *moment.ok_or_else(unknown)? = read(tensor, wanted.dtype())?;
        }
        *self = restored;
        Ok(())
    }
}

fn tensor(moment: &Moment, parameter: &Parameter) -> Result<Tensor, Error> {
    let shape = Shape::from(parameter.tensor().dims());
    let tensor = if moment.f64.is_empty() {
        Tensor::from_vec(moment.f32.clone(), shape, &Device::Cpu)
    } else {
        Tensor::from_vec(moment.f64.clone(), shape, &Device::Cpu)
    };
    Ok(tensor?)
}

fn read(tensor: &Tensor, dtype: DType) -> Result<Moment, Error> {
    let values = tensor.to_dtype(dtype)?.flatten_all()?;
    let mut moment = Moment::default();
    match dtype {
        DType::F64 => moment.f64 = values.to_vec1()?,
        _ => moment.f32 = values.to_vec1()?,
    }
    Ok(moment)
}
