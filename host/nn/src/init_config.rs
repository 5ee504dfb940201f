//! Initialisations in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::init::Init;

/// How a weight begins, by PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum InitConfig {
    /// All the same.
    Constant {
        /// The value.
        value: f64,
    },
    /// Uniform between two numbers.
    Uniform {
        /// The lowest.
        low: f64,
        /// The one that all are below.
        high: f64,
    },
    /// Normal.
    Normal {
        /// The mean.
        #[serde(default)]
        mean: f64,
        /// The standard deviation, 0 or more.
        #[schemars(range(min = 0.0))]
        std: f64,
    },
    /// Uniform, by the number of inputs (He et al., 2015).
    KaimingUniform {
        /// The negative slope of the nonlinearity that follows.
        #[serde(default)]
        a: f64,
    },
    /// Normal, by the number of inputs (He et al., 2015).
    KaimingNormal {
        /// The negative slope of the nonlinearity that follows.
        #[serde(default)]
        a: f64,
    },
    /// Uniform, by the numbers of inputs and outputs (Glorot and Bengio, 2010).
    XavierUniform,
    /// Normal, by the numbers of inputs and outputs (Glorot and Bengio, 2010).
    XavierNormal,
}

impl From<InitConfig> for Init {
    fn from(config: InitConfig) -> Init {
        match config {
            InitConfig::Constant { value } => Init::Constant(value),
            InitConfig::Uniform { low, high } => Init::Uniform { low, high },
            InitConfig::Normal { mean, std } => Init::Normal { mean, std },
            InitConfig::KaimingUniform { a } => Init::KaimingUniform { a },
            InitConfig::KaimingNormal { a } => Init::KaimingNormal { a },
            InitConfig::XavierUniform => Init::XavierUniform,
            InitConfig::XavierNormal => Init::XavierNormal,
        }
    }
}
