//! Adapters of low rank beside weights that are held (`LoRA`, Hu et al., 2021): which weights get them, and what is trained.
//!
//! **States.** A registry that is told to [adapt](crate::Parameters::adapt) before a model registers anything gives each
//! parameter a [`ParameterRole`]: it belongs to the base, which is held and not saved, to an adapter, or to what is trained
//! beside them. A parameter of the base that its file doesn't have becomes one that is trained
//! ([`Parameter::train`](crate::Parameter::train)).

use std::sync::OnceLock;

use sconce_base::patterns::Patterns;

/// Names of an adapter's parameters, below that of the module it belongs to.
pub const LORA_A: &str = "lora_A.weight";
/// See [`LORA_A`].
pub const LORA_B: &str = "lora_B.weight";
/// See [`LORA_A`]; the lengths of the adapted weight's rows, where they are trained by themselves.
pub const MAGNITUDE: &str = "lora_magnitude_vector";

/// What a parameter is to training with adapters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterRole {
    /// It is trained and saved, as all parameters are without adapters.
    #[default]
    Trained,
    /// It belongs to an adapter: trained and saved, and no file of the base has it.
    Adapter,
    /// It belongs to the pretrained model: never changed, and not saved.
    Base,
}

/// Size and strength of adapters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdapterOptions {
    /// Number of columns between an adapter's two matrices.
    pub rank: usize,
    /// Factor of what the adapter adds.
    pub scale: f64,
    /// Fraction of an adapter's inputs that is dropped in training.
    pub dropout: f64,
    /// Whether the lengths of the adapted weight's rows are trained by themselves (`DoRA`, Liu et al., 2024).
    pub dora: bool,
}

/// Which modules of a model get adapters, and which parameters are trained beside them.
#[derive(Clone, Debug)]
pub struct AdapterPlan {
    /// Patterns of modules: names of weights without `.weight`.
    pub modules: Patterns,
    /// Patterns of parameters that are trained beside the adapters; none but those if none.
    pub trained: Option<Patterns>,
    /// What the adapters are.
    pub options: AdapterOptions,
}

/// A module with an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptedModule {
    /// Name of the module.
    pub name: String,
    /// Whether its weight is (inputs, outputs), so that the adapter's product is added to it transposed.
    pub is_transposed: bool,
}

/// The plan of a registry, and what has been registered by it.
#[derive(Debug)]
pub struct Adapters {
    plan: AdapterPlan,
    modules: Vec<AdaptedModule>,
    base: OnceLock<String>,
}

impl Adapters {
    pub(crate) fn new(plan: AdapterPlan) -> Adapters {
        Adapters {
            plan,
            modules: Vec::new(),
            base: OnceLock::new(),
        }
    }

    /// The plan.
    pub fn plan(&self) -> &AdapterPlan {
        &self.plan
    }

    /// The modules that have adapters, in the order of registration.
    pub fn modules(&self) -> &[AdaptedModule] {
        &self.modules
    }

    /// Whether a module has an adapter.
    pub fn has(&self, module: &str) -> bool {
        self.modules.iter().any(|adapted| adapted.name == module)
    }

    /// Fingerprint of what is held, once its values are there.
    pub fn base(&self) -> Option<&str> {
        self.base.get().map(String::as_str)
    }

    /// Notes the fingerprint of what is held; the first one stays.
    pub fn set_base(&self, fingerprint: String) {
        // A second one would be of the same values.
        let _ = self.base.set(fingerprint);
    }

    /// Notes a module whose weight can have an adapter; returns what it is to be, if it gets one.
    pub(crate) fn offer(&mut self, name: &str, is_transposed: bool) -> Option<AdapterOptions> {
        if !self.plan.modules.matches(name) || self.is_trained(&format!("{name}.weight")) {
            return None;
        }
        self.modules.push(AdaptedModule {
            name: name.to_owned(),
            is_transposed,
        });
        Some(self.plan.options)
    }

    fn is_trained(&self, parameter: &str) -> bool {
        let trained = self.plan.trained.as_ref();
        trained.is_some_and(|trained| trained.matches(parameter))
    }

    pub(crate) fn role(&self, parameter: &str) -> ParameterRole {
        let of_adapter = [LORA_A, LORA_B, MAGNITUDE].iter().any(|part| {
            let module = parameter.strip_suffix(part);
            let module = module.and_then(|module| module.strip_suffix('.'));
            module.is_some_and(|module| self.modules.iter().any(|adapted| adapted.name == module))
        });
        if of_adapter {
            ParameterRole::Adapter
        } else if self.is_trained(parameter) {
            ParameterRole::Trained
        } else {
            ParameterRole::Base
        }
    }
}
