//! Initialisations in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::init::Init;

/// Initialisation of a weight, under PyTorch's name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum InitConfig {
    /// The same value everywhere.
    Constant {
        /// Value of every element.
        value: f64,
    },
    /// Uniform between two values.
    Uniform {
        /// Lower bound, inclusive.
        low: f64,
        /// Upper bound, exclusive.
        high: f64,
    },
    /// Normal distribution.
    Normal {
        /// Mean.
        #[serde(default)]
        mean: f64,
        /// Standard deviation, 0 or more.
        #[schemars(range(min = 0.0))]
        std: f64,
    },
    /// Uniform, scaled by the number of inputs (He et al., 2015).
    KaimingUniform {
        /// Negative slope of the nonlinearity that follows the layer.
        #[serde(default)]
        a: f64,
    },
    /// Normal, scaled by the number of inputs (He et al., 2015).
    KaimingNormal {
        /// Negative slope of the nonlinearity that follows the layer.
        #[serde(default)]
        a: f64,
    },
    /// Uniform, scaled by the numbers of inputs and outputs (Glorot and Bengio, 2010).
    XavierUniform,
    /// Normal, scaled by the numbers of inputs and outputs (Glorot and Bengio, 2010).
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
