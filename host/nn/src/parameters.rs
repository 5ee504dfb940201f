//! The registry of a model's parameters and buffers: named, in the order of their registration.
//!
//! candle's `VarMap` iterates a hash map, so that already the sum behind a gradient norm changes
//! its order from process to process. Here the order is the model's own, always the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use candle_core::{DType, Device, Shape, Tensor, Var};

use crate::init::Init;
use crate::random;

/// Why the registry refuses something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Two registrations under one name.
    #[error("the parameter `{0}` is registered twice; give its layer another name")]
    Duplicate(String),
    /// Nothing stands under that name.
    #[error("no parameter is called `{name}`{}", nearest_hint(nearest.as_deref()))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The nearest known one.
        nearest: Option<String>,
    },
    /// candle's error.
    #[error("the parameter `{name}`: {source}")]
    Tensor {
        /// The parameter's name.
        name: String,
        /// The error.
        source: candle_core::Error,
    },
}

fn nearest_hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// What a registered tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Learned from gradients.
    Parameter,
    /// Part of the model's state, but not learned from gradients.
    Buffer,
}

/// How much of its group's learning rate a parameter is trained at, from 0, frozen; 1 at first. Clones
/// share it, so that a layer can know of its own.
#[derive(Clone, Debug)]
pub struct Share(Arc<AtomicU64>);

impl Default for Share {
    fn default() -> Self {
        Share(Arc::new(AtomicU64::new(1.0_f64.to_bits())))
    }
}

impl Share {
    /// The share.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Whether it is none.
    pub fn is_frozen(&self) -> bool {
        self.get() == 0.0
    }

    fn set(&self, share: f64) {
        self.0.store(share.to_bits(), Ordering::Relaxed);
    }
}

/// A registered tensor.
#[derive(Clone, Debug)]
pub struct Parameter {
    name: String,
    var: Var,
    kind: Kind,
    share: Share,
}

impl Parameter {
    /// Its full name, as `fc1.weight`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its tensor.
    pub fn tensor(&self) -> &Tensor {
        self.var.as_tensor()
    }

    /// Its variable.
    pub fn var(&self) -> &Var {
        &self.var
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the optimizer steps it.
    pub fn is_trainable(&self) -> bool {
        self.kind == Kind::Parameter && !self.share.is_frozen()
    }

    /// How much of its group's learning rate it is trained at.
    pub fn share(&self) -> f64 {
        self.share.get()
    }

    /// Sets how much of its group's learning rate it is trained at; 0 freezes it.
    pub fn set_share(&self, share: f64) {
        self.share.set(share);
    }
}

/// The parameters and buffers of a model, in the order of their registration.
#[derive(Debug)]
pub struct Parameters {
    seed: u64,
    dtype: DType,
    device: Device,
    entries: Vec<Parameter>,
    /// The places of the names: a model may have tens of thousands.
    places: HashMap<String, usize>,
}

impl Parameters {
    /// An empty registry; what is registered gets its values from `seed`, in `dtype` on `device`.
    pub fn new(seed: u64, dtype: DType, device: &Device) -> Parameters {
        Parameters {
            seed,
            dtype,
            device: device.clone(),
            entries: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// The type of the numbers.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Where they are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Everything, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Parameter> + Clone {
        self.entries.iter()
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Those that the optimizer steps, in order.
    pub fn trainable(&self) -> impl Iterator<Item = &Parameter> {
        self.iter().filter(|parameter| parameter.is_trainable())
    }

    /// What a backward pass can take for constants: nothing where no parameter is frozen, otherwise
    /// everything that the optimizer does not step.
    pub fn held(&self) -> impl Iterator<Item = &Tensor> {
        let mut parameters = self.iter().filter(|entry| entry.kind == Kind::Parameter);
        let is_any_frozen = parameters.any(|parameter| parameter.share.is_frozen());
        let held = self.iter().filter(|entry| !entry.is_trainable());
        held.take_while(move |_| is_any_frozen)
            .map(Parameter::tensor)
    }

    /// The entry at `index` of the order.
    pub fn at(&self, index: usize) -> Option<&Parameter> {
        self.entries.get(index)
    }

    /// How many numbers the learned parameters have together.
    pub fn element_count(&self) -> usize {
        self.iter()
            .filter(|parameter| parameter.kind == Kind::Parameter)
            .map(|parameter| parameter.tensor().elem_count())
            .sum()
    }

    /// The entry of this name; the error has the nearest one.
    pub fn get(&self, name: &str) -> Result<&Parameter, Error> {
        let found = self.places.get(name);
        let found = found.and_then(|place| self.entries.get(*place));
        found.ok_or_else(|| self.unknown(name))
    }

    /// The place of this name in the order; the error has the nearest one.
    pub fn index_of(&self, name: &str) -> Result<usize, Error> {
        let found = self.places.get(name).copied();
        found.ok_or_else(|| self.unknown(name))
    }

    /// Freezes a parameter, or thaws it: a frozen one is not stepped.
    pub fn set_frozen(&self, name: &str, frozen: bool) -> Result<(), Error> {
        self.get(name)?.set_share(if frozen { 0.0 } else { 1.0 });
        Ok(())
    }

    /// The registry for a part of the model: names get `prefix.` in front.
    pub fn scope(&mut self, prefix: &str) -> Scope<'_> {
        Scope {
            prefix: prefix.to_owned(),
            parameters: self,
        }
    }

    fn unknown(&self, name: &str) -> Error {
        let nearest = self
            .entries
            .iter()
            .map(|entry| (strsim::damerau_levenshtein(&entry.name, name), &entry.name))
            .min();
        Error::Unknown {
            name: name.to_owned(),
            nearest: nearest.map(|(_, name)| name.clone()),
        }
    }

    pub(crate) fn register(
        &mut self,
        name: String,
        shape: &[usize],
        init: Init,
        kind: Kind,
    ) -> Result<Tensor, Error> {
        if self.places.contains_key(&name) {
            return Err(Error::Duplicate(name));
        }
        // Keyed by the name: the order of construction changes nothing.
        let mut stream = random::stream(self.seed, &format!("init/{name}"), 0, 0);
        let values = init.values(shape, &mut stream);
        let var = Tensor::from_vec(values, Shape::from(shape), &self.device)
            .and_then(|tensor| tensor.to_dtype(self.dtype))
            .and_then(|tensor| Var::from_tensor(&tensor));
        let var = match var {
            Ok(var) => var,
            Err(source) => return Err(Error::Tensor { name, source }),
        };
        let tensor = var.as_tensor().clone();
        self.places.insert(name.clone(), self.entries.len());
        self.entries.push(Parameter {
            name,
            var,
            kind,
            share: Share::default(),
        });
        Ok(tensor)
    }
}

/// The registry for a part of a model.
#[derive(Debug)]
pub struct Scope<'a> {
    prefix: String,
    parameters: &'a mut Parameters,
}

impl Scope<'_> {
    /// The registry for a part of this part.
    pub fn scope(&mut self, prefix: &str) -> Scope<'_> {
        Scope {
            prefix: format!("{}.{prefix}", self.prefix),
            parameters: self.parameters,
        }
    }

    /// Registers a learned parameter; the tensor shares its storage.
    pub fn parameter(&mut self, name: &str, shape: &[usize], init: Init) -> Result<Tensor, Error> {
        self.register(name, shape, init, Kind::Parameter)
    }

    /// Registers a buffer; the tensor shares its storage.
    pub fn buffer(&mut self, name: &str, shape: &[usize], init: Init) -> Result<Tensor, Error> {
        self.register(name, shape, init, Kind::Buffer)
    }

    /// How much of the learning rate something registered in this scope is trained at, from now on too.
    pub fn share(&self, name: &str) -> Result<Share, Error> {
        let entry = self.parameters.get(&format!("{}.{name}", self.prefix))?;
        Ok(entry.share.clone())
    }

    fn register(
        &mut self,
        name: &str,
        shape: &[usize],
        init: Init,
        kind: Kind,
    ) -> Result<Tensor, Error> {
        let name = format!("{}.{name}", self.prefix);
        self.parameters.register(name, shape, init, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_layers(first: &str, second: &str) -> Parameters {
        let mut parameters = Parameters::new(1, DType::F64, &Device::Cpu);
        for name in [first, second] {
            let mut layer = parameters.scope(name);
            layer
                .parameter("weight", &[3, 2], Init::linear_weight())
                .expect("weight");
            layer.buffer("mean", &[3], Init::ZEROS).expect("mean");
        }
        parameters
    }

    fn values(parameters: &Parameters, name: &str) -> Vec<f64> {
        let tensor = parameters.get(name).expect("it is there").tensor();
        tensor
            .flatten_all()
            .and_then(|t| t.to_vec1())
            .expect("numbers")
    }

    #[test]
    fn the_order_is_that_of_registration_and_changes_no_values() {
        let parameters = two_layers("a", "b");
        let names: Vec<&str> = parameters.iter().map(Parameter::name).collect();
        assert_eq!(names, ["a.weight", "a.mean", "b.weight", "b.mean"]);
        let other = two_layers("b", "a");
        assert_eq!(values(&parameters, "a.weight"), values(&other, "a.weight"));
        assert_ne!(
            values(&parameters, "a.weight"),
            values(&parameters, "b.weight")
        );
        assert_eq!(parameters.element_count(), 12);
    }

    #[test]
    fn mistyped_and_doubled_names_are_told() {
        let mut parameters = two_layers("a", "b");
        let error = parameters
            .get("a.wieght")
            .expect_err("mistyped")
            .to_string();
        assert_eq!(
            error,
            "no parameter is called `a.wieght`; did you mean `a.weight`?"
        );
        let again = parameters.scope("a").parameter("weight", &[1], Init::ONES);
        assert!(
            again
                .expect_err("doubled")
                .to_string()
                .contains("registered twice")
        );
        assert!(parameters.set_frozen("a.weight", true).is_ok());
        assert!(
            !parameters
                .get("a.weight")
                .expect("it is there")
                .is_trainable()
        );
        assert!(parameters.set_frozen("c.weight", true).is_err());
        let trainable: Vec<&str> = parameters.trainable().map(Parameter::name).collect();
        assert_eq!(trainable, ["b.weight"]);
        assert_eq!(parameters.index_of("b.weight").expect("it is there"), 2);
        assert!(parameters.index_of("c.weight").is_err());
    }
}
