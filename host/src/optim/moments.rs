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
    /// Whether a parameter may have been stepped without them.
    optional: bool,
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
            optional: false,
            entries: Vec::new(),
        }
    }

    /// Moments that a parameter may have been stepped without.
    pub(super) fn optional(names: &'static [&'static str]) -> Moments {
        Moments {
            optional: true,
            ..Moments::new(names)
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

    /// Restores what `save` gave; after an error everything is what it was.
    pub(super) fn load(
        &mut self,
        parameters: &Parameters,
        state: &[(String, Tensor)],
    ) -> Result<(), Error> {
        let mut restored = Moments {
            entries: Vec::new(),
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
    ) -> Result<(), Error> {
        let unknown = || Error::UnknownState(name.to_owned());
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
        if let Some(moment) = self.entry(index).moments.get_mut(place) {
            *moment = read(tensor, parameter.dtype())?;
        }
        Ok(())
    }

    /// Moments without their number of steps, or a part of them alone, would train on in silence
    /// with other numbers.
    fn check_complete(&self, parameters: &Parameters) -> Result<(), Error> {
        for (parameter, entry) in parameters.iter().zip(&self.entries) {
            let missing = |kind| Error::MissingState(format!("{}.{kind}", parameter.name()));
            if entry.steps == 0 && entry.moments.iter().any(Moment::is_used) {
                return Err(missing("step"));
            }
            let needs = entry.steps > 0 && !self.optional && parameter.tensor().elem_count() > 0;
            for (name, moment) in self.names.iter().zip(&entry.moments) {
                if needs && !moment.is_used() {
                    return Err(missing(name));
                }
            }
        }
        Ok(())
    }
}

fn steps(name: &str, tensor: &Tensor) -> Result<u64, Error> {
    check_shape(name, tensor, &[])?;
    let found: i64 = tensor.to_dtype(DType::I64)?.to_scalar()?;
    u64::try_from(found).map_err(|_| Error::StateSteps {
        name: name.to_owned(),
        found,
    })
}

fn check_shape(name: &str, tensor: &Tensor, wanted: &[usize]) -> Result<(), Error> {
    if tensor.dims() == wanted {
        return Ok(());
    }
    Err(Error::StateShape {
        name: name.to_owned(),
        found: tensor.dims().to_vec(),
        wanted: wanted.to_vec(),
    })
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
