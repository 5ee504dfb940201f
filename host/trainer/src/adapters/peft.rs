//! Files of the library PEFT: `adapter_model.safetensors`, which has what is trained, and `adapter_config.json`.
//!
//! Its names are those of the model behind `base_model.model.`. Of an adapter both matrices have the same shapes whatever the order
//! of the base's weight; parameters that are trained whole are there complete.

use std::collections::BTreeSet;
use std::path::Path;

use sconce_base::held_directory::HeldDirectory;
use sconce_base::regular_file::read_at_most;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::AdapterError;
use crate::parameters::adapters::Adapters;
use crate::parameters::{ParameterRole, Parameters};
use crate::weights::{self, Comparison, NamedTensors, Renames};

/// Directory of a run with the adapters in PEFT's files.
pub const ADAPTER: &str = "adapter";

/// File of PEFT's that says what an adapter is.
pub const ADAPTER_CONFIG: &str = "adapter_config.json";

/// Files of adapters in a directory of PEFT's, the first that is there.
const FILES: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];

/// What is in front of the model's names.
const PREFIX: &str = "base_model.model.";

/// Size in bytes above which a configuration is not read.
const LARGEST: u64 = 16 << 20;

/// The configuration of an adapter of PEFT's, as far as it determines what a model computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "as PEFT's file has them")]
pub struct PeftConfig {
    /// Method; `LORA` is known.
    pub peft_type: String,
    /// Task of the model, which PEFT chooses its class by.
    #[serde(default)]
    pub task_type: Option<String>,
    /// What the adapter was made for.
    #[serde(default)]
    pub base_model_name_or_path: Option<String>,
    /// Rank.
    pub r: usize,
    /// The scale is this by the rank, or by its root.
    pub lora_alpha: f64,
    /// Whether by its root.
    #[serde(default)]
    pub use_rslora: bool,
    /// Whether the lengths of the adapted weights' rows are trained by themselves.
    #[serde(default)]
    pub use_dora: bool,
    /// Fraction of inputs that was dropped in training.
    #[serde(default)]
    pub lora_dropout: f64,
    /// Whether the base's weights are (inputs, outputs).
    #[serde(default)]
    pub fan_in_fan_out: bool,
    /// Names of the modules that have adapters, or a regular expression of them.
    #[serde(default)]
    pub target_modules: Value,
    /// Modules that were trained whole.
    #[serde(default)]
    pub modules_to_save: Option<Vec<String>>,
    /// How biases are trained; `none` is known.
    #[serde(default = "none")]
    pub bias: String,
    /// How the adapters began.
    #[serde(default = "usual")]
    pub init_lora_weights: Value,
    /// Whether PEFT loads them to use them, not to train them.
    #[serde(default)]
    pub inference_mode: bool,
}

fn none() -> String {
    "none".to_owned()
}

fn usual() -> Value {
    Value::Bool(true)
}

impl PeftConfig {
    /// The factor of what an adapter adds.
    pub fn scale(&self) -> f64 {
        let rank = self.r as f64;
        self.lora_alpha / if self.use_rslora { rank.sqrt() } else { rank }
    }

    /// Reads the configuration of a directory.
    ///
    /// # Errors
    ///
    /// If it can't be read, or says something that changes what the adapter does and is not known here.
    pub fn read(directory: &Path) -> Result<PeftConfig, AdapterError> {
        let failed = |reason: String| AdapterError::peft(directory, reason);
        let text = read_at_most(&directory.join(ADAPTER_CONFIG), LARGEST)
            .map_err(|error| failed(format!("`{ADAPTER_CONFIG}`: {error}")))?;
        let all: Map<String, Value> = serde_json::from_slice(&text)
            .map_err(|error| failed(format!("`{ADAPTER_CONFIG}`: {error}")))?;
        if let Some(reason) = refused(&all) {
            return Err(failed(format!("`{ADAPTER_CONFIG}` has {reason}")));
        }
        let config: PeftConfig = serde_json::from_value(Value::Object(all))
            .map_err(|error| failed(format!("`{ADAPTER_CONFIG}`: {error}")))?;
        if config.r == 0 || !config.lora_alpha.is_finite() {
            return Err(failed(format!(
                "`{ADAPTER_CONFIG}`: its rank or alpha is not a number"
            )));
        }
        Ok(config)
    }
}

/// Keys that change what an adapter does, beside those of methods, `use_…`.
const CHANGING: [&str; 12] = [
    "rank_pattern",
    "alpha_pattern",
    "layer_replication",
    "lora_bias",
    "target_parameters",
    "trainable_token_indices",
    "loftq_config",
    "arrow_config",
    "kasa_config",
    "velora_config",
    "monteclora_config",
    "alora_invocation_tokens",
];

/// Methods that are known.
const KNOWN: [&str; 2] = ["use_dora", "use_rslora"];

/// What of a configuration changes what an adapter does, and is not known.
fn refused(config: &Map<String, Value>) -> Option<String> {
    let is_default = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(entries) => entries.is_empty(),
        Value::Array(values) => values.is_empty(),
        _ => false,
    };
    let of = |key: &str, known: &[&str]| {
        let value = config.get(key)?;
        let is_known = value.as_str().is_some_and(|value| known.contains(&value));
        (!is_known).then(|| format!("`{key}` {value}, and {} is known here", known.join(" or ")))
    };
    if let Some(reason) = of("peft_type", &["LORA"]).or_else(|| of("bias", &["none"])) {
        return Some(reason);
    }
    if let Some(Value::String(init)) = config.get("init_lora_weights")
        && !["gaussian", "orthogonal", "eva"].contains(&init.as_str())
    {
        return Some(format!(
            "`init_lora_weights` \"{init}\", by which the base's weights are changed, too"
        ));
    }
    let changing = config.iter().find(|(key, value)| {
        let is_method = key.starts_with("use_") && !KNOWN.contains(&key.as_str());
        (is_method || CHANGING.contains(&key.as_str())) && !is_default(value)
    });
    changing.map(|(key, value)| format!("`{key}` {value}, which is not known here"))
}

/// Loads adapters of PEFT's into a model's: all of them, of the same rank and scale.
///
/// # Errors
///
/// If they can't be read, or don't fit.
pub fn load(directory: &Path, parameters: &Parameters) -> Result<Comparison, AdapterError> {
    let config = PeftConfig::read(directory)?;
    let failed = |reason: String| AdapterError::peft(directory, reason);
    let Some(adapters) = parameters.adapters() else {
        return Err(failed("the model has no adapters".to_owned()));
    };
    let own = adapters.plan().options;
    let (rank, scale) = (config.r, config.scale());
    if rank != own.rank || (scale - own.scale).abs() > 1e-9 * own.scale.abs() {
        return Err(failed(format!(
            "its rank is {rank} and its scale {scale}, in the manifest they are {} and {}: write `rank`, `alpha` and \
             `rslora` of `adapt` as `{ADAPTER_CONFIG}` has them",
            own.rank, own.scale
        )));
    }
    if config.use_dora != own.dora {
        return Err(failed(format!(
            "its `use_dora` is {}: write `\"dora\": {}` under `adapt`",
            config.use_dora, config.use_dora
        )));
    }
    let path = file_in(directory)?;
    let renames = Renames::from([(PREFIX.to_owned(), String::new())]);
    Ok(weights::load_beside_base(&path, parameters, &renames)?)
}

/// The file of weights in a directory of PEFT's.
pub(super) fn file_in(directory: &Path) -> Result<std::path::PathBuf, AdapterError> {
    let mut files = FILES.iter().map(|name| directory.join(name));
    let found = files.find(|path| path.exists());
    found.ok_or_else(|| {
        AdapterError::peft(
            directory,
            format!("it has no `{}`", FILES.join("` and no `")),
        )
    })
}

/// The model's name of a weight in a file of PEFT's.
pub(super) fn own_name(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// Writes adapters and what is trained beside them into the directory [`ADAPTER`] of a run. `named` has all weights, or those of a
/// set; `base` is what they were made for, as the manifest names it.
///
/// # Errors
///
/// If it can't be written.
pub fn write(
    run: &HeldDirectory,
    parameters: &Parameters,
    named: &[(&str, &candle_core::Tensor)],
    settings: &PeftConfig,
) -> Result<(), AdapterError> {
    let Some(adapters) = parameters.adapters() else {
        return Ok(());
    };
    let directory = run.path().join(ADAPTER);
    run.make_directory(&directory)?;
    // Of a module that is trained in part PEFT wants all.
    let trained = trained_modules(parameters);
    let is_own = |name: &str| {
        let found = parameters.get(name);
        found.is_ok_and(|parameter| parameter.role() != ParameterRole::Base)
            || trained.contains(module_of(name))
    };
    let own: Vec<(String, &candle_core::Tensor)> = named
        .iter()
        .filter(|(name, _)| is_own(name))
        .map(|(name, tensor)| (format!("{PREFIX}{name}"), *tensor))
        .collect();
    let own: NamedTensors<'_> = own
        .iter()
        .map(|(name, tensor)| (name.as_str(), *tensor))
        .collect();
    let [file, _] = FILES;
    weights::save_named(run, &directory.join(file), own, Some(("format", "pt")))?;
    let config = described(parameters, adapters, settings);
    let mut text = serde_json::to_vec_pretty(&config).map_err(std::io::Error::from)?;
    text.push(b'\n');
    run.write_atomically(&directory.join(ADAPTER_CONFIG), &text)?;
    Ok(())
}

/// Modules with parameters that are trained beside the adapters.
fn trained_modules(parameters: &Parameters) -> BTreeSet<&str> {
    let trained = parameters
        .iter()
        .filter(|parameter| parameter.role() == ParameterRole::Trained);
    trained
        .map(|parameter| module_of(parameter.name()))
        .collect()
}

/// Name of the module that a parameter belongs to.
fn module_of(parameter: &str) -> &str {
    parameter
        .rsplit_once('.')
        .map_or(parameter, |(module, _)| module)
}

/// The configuration of the adapters that a model has.
fn described(parameters: &Parameters, adapters: &Adapters, settings: &PeftConfig) -> PeftConfig {
    let modules = adapters.modules();
    let targets = modules.iter().map(|module| module.name.as_str());
    let trained = trained_modules(parameters);
    PeftConfig {
        target_modules: targets.collect(),
        fan_in_fan_out: !modules.is_empty() && modules.iter().all(|module| module.is_transposed),
        modules_to_save: (!trained.is_empty())
            .then(|| trained.into_iter().map(str::to_owned).collect()),
        ..settings.clone()
    }
}
