//! The registry of a model's parameters and buffers: named, in registration order.
//!
//! candle's `VarMap` iterates a hash map, so that even the sum for a gradient norm runs in a
//! different order in each process. Here the order is the model's own and always the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use candle_core::{DType, Device, Tensor, TensorId, Var};
use foldhash::fast::FixedState;
use sconce_base::nearest::nearest;

use crate::adapters::{AdapterOptions, AdapterPlan, Adapters, ParameterRole};
use crate::init::Init;
use crate::memory_budget::{MemoryBudget, TooLarge};
use crate::parameter_kind::ParameterKind;
use sconce_ops::random;

/// An error of the registry.
#[derive(Debug, thiserror::Error)]
pub enum ParametersError {
    /// A name is registered twice.
    #[error("the parameter `{0}` is registered twice; give its layer another name")]
    Duplicate(String),
    /// No entry has this name.
    #[error("no parameter is called `{name}`{}", nearest_hint(nearest.as_deref()))]
    Unknown {
        /// Name that was requested.
        name: String,
        /// Nearest registered name.
        nearest: Option<String>,
    },
    /// The model does not fit into its memory budget.
    #[error("the parameter `{name}` of shape {shape:?} {problem}")]
    TooLarge {
        /// Name of the parameter.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Rest of the message.
        problem: String,
    },
    /// candle failed to create or change a tensor.
    #[error("the parameter `{name}`: {source}")]
    Tensor {
        /// Name of the parameter.
        name: String,
        /// candle's error.
        source: candle_core::Error,
    },
}

fn nearest_hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Multiplier of a parameter's learning rate; 0 freezes the parameter, initially 1. Clones share the
/// value, so that a layer can see its own parameters' multipliers.
///
/// That of a parameter of a [base](ParameterRole::Base) is 0, whatever it is set to.
#[derive(Clone, Debug)]
pub struct LearningRateScale(Arc<SharedScale>);

#[derive(Debug)]
struct SharedScale {
    bits: AtomicU64,
    is_base: AtomicBool,
}

impl Default for LearningRateScale {
    fn default() -> Self {
        LearningRateScale(Arc::new(SharedScale {
            bits: AtomicU64::new(1.0_f64.to_bits()),
            is_base: AtomicBool::new(false),
        }))
    }
}

impl LearningRateScale {
    /// Returns the multiplier.
    pub fn get(&self) -> f64 {
        if self.is_base() {
            return 0.0;
        }
        f64::from_bits(self.0.bits.load(Ordering::Relaxed))
    }

    /// Whether the multiplier is 0.
    pub fn is_frozen(&self) -> bool {
        self.get() == 0.0
    }

    fn set(&self, share: f64) {
        self.0.bits.store(share.to_bits(), Ordering::Relaxed);
    }

    fn is_base(&self) -> bool {
        self.0.is_base.load(Ordering::Relaxed)
    }

    fn set_base(&self, is_base: bool) {
        self.0.is_base.store(is_base, Ordering::Relaxed);
    }
}

/// A registered tensor.
#[derive(Clone, Debug)]
pub struct Parameter {
    name: String,
    var: Var,
    kind: ParameterKind,
    share: LearningRateScale,
    is_of_adapter: bool,
}

impl Parameter {
    /// Returns the full name, e.g. `fc1.weight`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value as a tensor that shares the variable's storage.
    pub fn tensor(&self) -> &Tensor {
        self.var.as_tensor()
    }

    /// Returns the variable.
    pub fn var(&self) -> &Var {
        &self.var
    }

    /// Sets its elements to those of a tensor of the same shape, on any device, converted to its type.
    ///
    /// # Errors
    ///
    /// If the shapes differ, or a device fails.
    pub fn assign(&self, tensor: &Tensor) -> candle_core::Result<()> {
        let own = self.tensor();
        self.var
            .set(&tensor.to_dtype(own.dtype())?.to_device(own.device())?)
    }

    /// Returns whether it is a parameter or a buffer.
    pub fn kind(&self) -> ParameterKind {
        self.kind
    }

    /// Returns what it is to training with adapters.
    pub fn role(&self) -> ParameterRole {
        if self.is_of_adapter {
            ParameterRole::Adapter
        } else if self.share.is_base() {
            ParameterRole::Base
        } else {
            ParameterRole::Trained
        }
    }

    /// Trains it, if it has been held as part of the base: a new head.
    pub fn train(&self) {
        self.share.set_base(false);
    }

    /// Whether the optimizer updates it.
    pub fn is_trainable(&self) -> bool {
        self.kind == ParameterKind::Parameter && !self.share.is_frozen()
    }

    /// Returns the multiplier of its group's learning rate.
    pub fn share(&self) -> f64 {
        self.share.get()
    }

    /// Sets the multiplier of its group's learning rate; 0 freezes it.
    pub fn set_learning_rate_scale(&self, share: f64) {
        self.share.set(share);
    }
}

/// The parameters and buffers of a model, in registration order.
#[derive(Debug)]
pub struct Parameters {
    seed: u64,
    dtype: DType,
    device: Device,
    entries: Vec<Parameter>,
    /// Index of each name in the order; a model may have tens of thousands.
    places: HashMap<String, usize>,
    /// Index of each variable in the order.
    variables: HashMap<TensorId, usize, FixedState>,
    /// What entries are counted against, in place of being created.
    budget: Option<MemoryBudget>,
    /// Number of learned elements that have been counted.
    counted: usize,
    /// Whether entries get values of their own; otherwise they are zero.
    is_drawn: bool,
    adapters: Option<Adapters>,
}

impl Parameters {
    /// Creates an empty registry. Entries are initialised from `seed`, in `dtype` on `device`.
    pub fn new(seed: u64, dtype: DType, device: &Device) -> Parameters {
        Parameters {
            seed,
            dtype,
            device: device.clone(),
            entries: Vec::new(),
            places: HashMap::new(),
            variables: HashMap::default(),
            budget: None,
            counted: 0,
            is_drawn: true,
            adapters: None,
        }
    }

    /// Creates an empty registry whose entries are zero, for a model all of whose values are read from a file: they cost nothing until
    /// then.
    pub fn zeros(dtype: DType, device: &Device) -> Parameters {
        Parameters {
            is_drawn: false,
            ..Parameters::new(0, dtype, device)
        }
    }

    /// Gives what is registered from now on adapters, and holds the rest.
    pub fn adapt(&mut self, plan: AdapterPlan) {
        self.adapters = Some(Adapters::new(plan));
    }

    /// Returns the plan of adapters and what has them, if there are any.
    pub fn adapters(&self) -> Option<&Adapters> {
        self.adapters.as_ref()
    }

    /// Creates a registry of variables that exist: those of a loop that creates its own, in this order. It shares their storage.
    ///
    /// # Errors
    ///
    /// If two have the same name.
    pub fn adopt(
        seed: u64,
        entries: impl IntoIterator<Item = (String, Var, ParameterKind)>,
    ) -> Result<Parameters, ParametersError> {
        let mut parameters = Parameters::new(seed, DType::F32, &Device::Cpu);
        for (name, var, kind) in entries {
            if parameters.places.contains_key(&name) {
                return Err(ParametersError::Duplicate(name));
            }
            if parameters.is_empty() {
                parameters.dtype = var.as_tensor().dtype();
                parameters.device = var.as_tensor().device().clone();
            }
            parameters.add(name, var, kind);
        }
        Ok(parameters)
    }

    fn add(&mut self, name: String, var: Var, kind: ParameterKind) {
        self.places.insert(name.clone(), self.entries.len());
        self.variables
            .insert(var.as_tensor().id(), self.entries.len());
        let role = self.adapters.as_ref().map(|adapters| adapters.role(&name));
        let share = LearningRateScale::default();
        share.set_base(role == Some(ParameterRole::Base));
        self.entries.push(Parameter {
            name,
            var,
            kind,
            share,
            is_of_adapter: role == Some(ParameterRole::Adapter),
        });
    }

    /// Creates a registry that allocates nothing and has no entries: it counts what would be registered, in `dtype`, and
    /// refuses what exceeds the budget. Its tensors have a shape and nothing else.
    pub fn counting(dtype: DType, budget: MemoryBudget) -> Parameters {
        Parameters {
            budget: Some(budget),
            ..Parameters::new(0, dtype, &Device::Cpu)
        }
    }

    /// Returns the budget that entries are [counted](Parameters::counting) against, if they are.
    pub fn budget(&self) -> Option<&MemoryBudget> {
        self.budget.as_ref()
    }

    /// Returns the element type of all entries.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the seed from which entries are initialised.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the device that holds the entries.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Iterates over all entries, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Parameter> + Clone {
        self.entries.iter()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the entries that the optimizer updates, in order.
    pub fn trainable(&self) -> impl Iterator<Item = &Parameter> {
        self.iter().filter(|parameter| parameter.is_trainable())
    }

    /// Iterates over the tensors that a backward pass can treat as constants: none if no parameter is
    /// frozen, otherwise everything that the optimizer does not update.
    pub fn held(&self) -> impl Iterator<Item = &Tensor> {
        let mut parameters = self
            .iter()
            .filter(|entry| entry.kind == ParameterKind::Parameter);
        let is_any_frozen = parameters.any(|parameter| parameter.share.is_frozen());
        let held = self.iter().filter(|entry| !entry.is_trainable());
        held.take_while(move |_| is_any_frozen)
            .map(Parameter::tensor)
    }

    /// Returns the entry at `index` of the order.
    pub fn at(&self, index: usize) -> Option<&Parameter> {
        self.entries.get(index)
    }

    /// Returns the number of elements of all learned parameters.
    pub fn element_count(&self) -> usize {
        self.iter()
            .filter(|parameter| parameter.kind == ParameterKind::Parameter)
            .map(|parameter| parameter.tensor().elem_count())
            .sum::<usize>()
            .saturating_add(self.counted)
    }

    /// Returns the entry of this name; the error suggests the nearest one.
    pub fn get(&self, name: &str) -> Result<&Parameter, ParametersError> {
        let found = self.places.get(name);
        let found = found.and_then(|place| self.entries.get(*place));
        found.ok_or_else(|| self.unknown(name))
    }

    /// Returns the index of this name in the order; the error suggests the nearest one.
    pub fn index_of(&self, name: &str) -> Result<usize, ParametersError> {
        let found = self.places.get(name).copied();
        found.ok_or_else(|| self.unknown(name))
    }

    /// Returns the index of a variable in the order; none if it is not in the registry.
    pub fn index_of_variable(&self, variable: &Tensor) -> Option<usize> {
        self.variables.get(&variable.id()).copied()
    }

    /// Freezes a parameter or unfreezes it: the optimizer does not update frozen ones.
    pub fn set_frozen(&self, name: &str, frozen: bool) -> Result<(), ParametersError> {
        self.get(name)?
            .set_learning_rate_scale(if frozen { 0.0 } else { 1.0 });
        Ok(())
    }

    /// Returns the registry for a part of the model, with `prefix.` in front of all names.
    pub fn scope(&mut self, prefix: &str) -> ParameterScope<'_> {
        ParameterScope {
            prefix: prefix.to_owned(),
            parameters: self,
        }
    }

    fn unknown(&self, name: &str) -> ParametersError {
        let names = self.entries.iter().map(Parameter::name);
        ParametersError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, names).map(str::to_owned),
        }
    }

    /// Registers an entry, with the values that `init` gives for its name.
    ///
    /// # Errors
    ///
    /// If the name is taken, the memory budget does not allow for it, or candle can't make the tensor.
    pub fn register(
        &mut self,
        name: String,
        shape: &[usize],
        init: Init,
        kind: ParameterKind,
    ) -> Result<Tensor, ParametersError> {
        if self.places.contains_key(&name) {
            return Err(ParametersError::Duplicate(name));
        }
        if self.budget.is_some() {
            return self.count(name, shape, kind);
        }
        let var = if self.is_drawn {
            self.drawn(&name, shape, init)
        } else {
            Var::zeros(shape, self.dtype, &self.device)
        };
        let var = match var {
            Ok(var) => var,
            Err(source) => return Err(ParametersError::Tensor { name, source }),
        };
        let tensor = var.as_tensor().clone();
        self.add(name, var, kind);
        Ok(tensor)
    }

    /// Values keyed by the name: they do not depend on the order of construction.
    fn drawn(&self, name: &str, shape: &[usize], init: Init) -> candle_core::Result<Var> {
        let mut stream = random::stream(self.seed, &format!("init/{name}"), 0, 0);
        if self.dtype == DType::F32 {
            let values = init.values(shape, &mut stream, |value| value as f32);
            return Var::from_vec(values, shape, &self.device);
        }
        let values = init.values(shape, &mut stream, |value| value);
        let tensor = Tensor::from_vec(values, shape, &self.device)?;
        Var::from_tensor(&tensor.to_dtype(self.dtype)?)
    }

    /// Counts an entry; returns a tensor of its shape that takes no memory.
    fn count(
        &mut self,
        name: String,
        shape: &[usize],
        kind: ParameterKind,
    ) -> Result<Tensor, ParametersError> {
        let size = self.dtype.size_in_bytes();
        let role = self.adapters.as_ref().map(|adapters| adapters.role(&name));
        // What is held has neither gradient nor state.
        let counted_as = match role {
            Some(ParameterRole::Base) => ParameterKind::Buffer,
            _ => kind,
        };
        let taken = self
            .budget
            .as_mut()
            .map(|budget| budget.take(shape, size, counted_as));
        if let Some(Err(TooLarge(problem))) = taken {
            let shape = shape.to_vec();
            return Err(ParametersError::TooLarge {
                name,
                shape,
                problem,
            });
        }
        let tensor = Tensor::zeros((), self.dtype, &Device::Cpu);
        let tensor = tensor.and_then(|tensor| tensor.broadcast_as(shape));
        match tensor {
            Ok(tensor) => {
                if kind == ParameterKind::Parameter {
                    self.counted = self.counted.saturating_add(tensor.elem_count());
                }
                self.places.insert(name, self.places.len());
                Ok(tensor)
            }
            Err(source) => Err(ParametersError::Tensor { name, source }),
        }
    }
}

/// The registry for a part of a model, which adds a prefix to all names.
#[derive(Debug)]
pub struct ParameterScope<'a> {
    prefix: String,
    parameters: &'a mut Parameters,
}

impl ParameterScope<'_> {
    /// Returns the registry for a part of this part.
    pub fn scope(&mut self, prefix: &str) -> ParameterScope<'_> {
        ParameterScope {
            prefix: format!("{}.{prefix}", self.prefix),
            parameters: self.parameters,
        }
    }

    /// Registers a learned parameter; the returned tensor shares its storage.
    pub fn parameter(
        &mut self,
        name: &str,
        shape: &[usize],
        init: Init,
    ) -> Result<Tensor, ParametersError> {
        self.register(name, shape, init, ParameterKind::Parameter)
    }

    /// Registers a buffer; the returned tensor shares its storage.
    pub fn buffer(
        &mut self,
        name: &str,
        shape: &[usize],
        init: Init,
    ) -> Result<Tensor, ParametersError> {
        self.register(name, shape, init, ParameterKind::Buffer)
    }

    /// Offers this part of the model, which has a matrix called `weight`, for an adapter; returns what that is to be, if it gets
    /// one. `is_transposed`: the matrix is (inputs, outputs).
    pub fn adapter(&mut self, is_transposed: bool) -> Option<AdapterOptions> {
        let adapters = self.parameters.adapters.as_mut()?;
        adapters.offer(&self.prefix, is_transposed)
    }

    /// Full name of this part of the model.
    pub fn name(&self) -> &str {
        &self.prefix
    }

    /// Returns the learning-rate multiplier of an entry in this scope; later changes are visible in it.
    pub fn share(&self, name: &str) -> Result<LearningRateScale, ParametersError> {
        if self.parameters.budget.is_some() {
            // Entries that are only counted are never trained.
            return Ok(LearningRateScale::default());
        }
        let entry = self.parameters.get(&format!("{}.{name}", self.prefix))?;
        Ok(entry.share.clone())
    }

    fn register(
        &mut self,
        name: &str,
        shape: &[usize],
        init: Init,
        kind: ParameterKind,
    ) -> Result<Tensor, ParametersError> {
        let name = format!("{}.{name}", self.prefix);
        self.parameters.register(name, shape, init, kind)
    }
}

#[cfg(test)]
mod tests {
    use sconce_base::patterns::Patterns;

    use super::*;
    use crate::adapters::{LORA_A, LORA_B};

    fn two_layers(first: &str, second: &str) -> Parameters {
        let mut parameters = Parameters::new(1, DType::F64, &sconce_ops::device::for_tests());
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
    fn variables_that_exist_share_their_storage_with_the_registry() {
        let var = Var::zeros(2, DType::F64, &Device::Cpu).expect("zeros");
        let entry = |name: &str| (name.to_owned(), var.clone(), ParameterKind::Parameter);
        let parameters = Parameters::adopt(1, [entry("a")]).expect("a registry");
        var.set(&Tensor::new(&[1.0, 2.0], &Device::Cpu).expect("numbers"))
            .expect("set");
        assert_eq!(values(&parameters, "a"), [1.0, 2.0]);
        assert_eq!(parameters.index_of_variable(var.as_tensor()), Some(0));
        assert!(Parameters::adopt(1, [entry("a"), entry("a")]).is_err());
    }

    #[test]
    fn a_base_is_held_and_its_adapters_are_trained() {
        use ParameterRole::{Adapter, Base, Trained};
        let patterns = |text: &str| Patterns::new(&[text.to_owned()]).expect("a pattern");
        let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
        parameters.adapt(AdapterPlan {
            modules: patterns("*.query"),
            trained: Some(patterns("head.*")),
            options: AdapterOptions {
                rank: 2,
                scale: 0.5,
                dropout: 0.0,
                dora: false,
            },
        });
        for name in ["a.query", "a.key", "head"] {
            let mut scope = parameters.scope(name);
            (scope.parameter("weight", &[3, 3], Init::ONES)).expect("a weight");
            if let Some(AdapterOptions { rank, .. }) = scope.adapter(false) {
                for (part, shape) in [(LORA_A, [rank, 3]), (LORA_B, [3, rank])] {
                    scope.parameter(part, &shape, Init::ZEROS).expect("a part");
                }
            }
        }
        let roles = |parameters: &Parameters| {
            let all = parameters.iter();
            all.map(|one| (one.name().to_owned(), one.role(), one.is_trainable()))
                .collect::<Vec<_>>()
        };
        let expected = [
            ("a.query.weight", Base, false),
            ("a.query.lora_A.weight", Adapter, true),
            ("a.query.lora_B.weight", Adapter, true),
            ("a.key.weight", Base, false),
            ("head.weight", Trained, true),
        ];
        let expected = expected.map(|(name, role, trains)| (name.to_owned(), role, trains));
        assert_eq!(roles(&parameters), expected);
        assert_eq!(parameters.held().count(), 2);
        let modules = parameters.adapters().expect("a plan").modules();
        assert_eq!(modules.len(), 1);
        assert_eq!(modules[0].name, "a.query");
        // No hook thaws the base; a weight that the base lacks is trained.
        let key = parameters.get("a.key.weight").expect("it is there");
        key.set_learning_rate_scale(1.0);
        assert!(!key.is_trainable());
        key.train();
        assert!(key.is_trainable());
        assert_eq!(key.role(), Trained);
    }

    #[test]
    fn mistyped_and_doubled_names_are_reported() {
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
