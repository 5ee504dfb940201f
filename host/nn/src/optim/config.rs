//! Optimizers in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Adam, AdamW, GroupConfig, Groups, Lion, MomentStorage, Optimizer, OptimizerError, RmsProp, Sgd,
};
use crate::parameters::Parameters;

/// Optimizer and its hyper-parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum OptimizerConfig {
    /// Stochastic gradient descent, optionally with momentum.
    Sgd {
        /// The learning rate, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0, "examples" = [0.01]))]
        learning_rate: f64,
        /// The momentum, from 0 (none) to below 1.
        #[serde(default)]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        momentum: f64,
        /// Dampening of new gradients in the momentum, from 0 to 1.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 1.0))]
        dampening: f64,
        /// Whether to use Nesterov momentum.
        #[serde(default)]
        nesterov: bool,
        /// Weight decay, added to the gradient; 0 or more.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
        /// Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random.
        #[serde(default, skip_serializing_if = "MomentStorage::is_f32")]
        moments: MomentStorage,
        /// Parameter groups with their own learning rate or weight decay.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupConfig>,
    },
    /// Adam.
    Adam {
        /// The learning rate, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0, "examples" = [0.001]))]
        learning_rate: f64,
        /// Decay rate of the moving average of gradients, from 0 to below 1.
        #[serde(default = "default_beta1")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        beta1: f64,
        /// Decay rate of the moving average of squared gradients, from 0 to below 1.
        #[serde(default = "default_beta2")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        beta2: f64,
        /// Constant added to the denominator; above 0.
        #[serde(default = "default_epsilon")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
        /// Weight decay, added to the gradient; 0 or more.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
        /// Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random.
        #[serde(default, skip_serializing_if = "MomentStorage::is_f32")]
        moments: MomentStorage,
        /// Parameter groups with their own learning rate or weight decay.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupConfig>,
    },
    /// Adam with decoupled weight decay.
    #[serde(rename = "adamw")]
    AdamW {
        /// The learning rate, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0, "examples" = [0.001]))]
        learning_rate: f64,
        /// Decay rate of the moving average of gradients, from 0 to below 1.
        #[serde(default = "default_beta1")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        beta1: f64,
        /// Decay rate of the moving average of squared gradients, from 0 to below 1.
        #[serde(default = "default_beta2")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        beta2: f64,
        /// Constant added to the denominator; above 0.
        #[serde(default = "default_epsilon")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
        /// Weight decay, decoupled from the gradient; 0 or more.
        #[serde(default = "default_weight_decay")]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
        /// Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random.
        #[serde(default, skip_serializing_if = "MomentStorage::is_f32")]
        moments: MomentStorage,
        /// Parameter groups with their own learning rate or weight decay.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupConfig>,
    },
    /// RMSprop, optionally with momentum.
    #[serde(rename = "rmsprop")]
    RmsProp {
        /// The learning rate, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0, "examples" = [0.001]))]
        learning_rate: f64,
        /// Decay rate of the moving average of squared gradients, from 0 to below 1.
        #[serde(default = "default_alpha")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        alpha: f64,
        /// Constant added to the denominator; above 0.
        #[serde(default = "default_epsilon")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
        /// The momentum, from 0 (none) to below 1.
        #[serde(default)]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        momentum: f64,
        /// Whether to normalise by the gradients' variance instead of their mean square.
        #[serde(default)]
        centered: bool,
        /// Weight decay, added to the gradient; 0 or more.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
        /// Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random.
        #[serde(default, skip_serializing_if = "MomentStorage::is_f32")]
        moments: MomentStorage,
        /// Parameter groups with their own learning rate or weight decay.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupConfig>,
    },
    /// Lion: steps of equal size, by the sign of a moving average.
    Lion {
        /// The learning rate, above 0.
        #[schemars(extend("exclusiveMinimum" = 0.0, "examples" = [0.0001]))]
        learning_rate: f64,
        /// Weight of the moving average in a step's direction, from 0 to below 1.
        #[serde(default = "default_beta1")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        beta1: f64,
        /// Decay rate of the moving average of gradients, from 0 to below 1.
        #[serde(default = "default_lion_beta2")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        beta2: f64,
        /// Weight decay, decoupled from the gradient; 0 or more.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        weight_decay: f64,
        /// Type in which moments are kept between updates: `f32`, or `bf16`, half the memory, rounded at random.
        #[serde(default, skip_serializing_if = "MomentStorage::is_f32")]
        moments: MomentStorage,
        /// Parameter groups with their own learning rate or weight decay.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        groups: Vec<GroupConfig>,
    },
}

fn default_beta1() -> f64 {
    0.9
}

fn default_beta2() -> f64 {
    0.999
}

fn default_lion_beta2() -> f64 {
    0.99
}

fn default_alpha() -> f64 {
    0.99
}

fn default_epsilon() -> f64 {
    1e-8
}

fn default_weight_decay() -> f64 {
    0.01
}

impl OptimizerConfig {
    /// Returns the number of values of the parameter's type in whose memory the optimizer's state of an element fits.
    pub fn state_size(&self) -> u64 {
        let moments: u64 = match self {
            OptimizerConfig::Sgd { momentum, .. } => u64::from(*momentum > 0.0),
            OptimizerConfig::Adam { .. } | OptimizerConfig::AdamW { .. } => 2,
            OptimizerConfig::RmsProp {
                momentum, centered, ..
            } => 1 + u64::from(*momentum > 0.0) + u64::from(*centered),
            OptimizerConfig::Lion { .. } => 1,
        };
        match self.moments() {
            MomentStorage::F32 => moments,
            MomentStorage::Bf16 => moments.div_ceil(2),
        }
    }

    /// Returns how moments are stored.
    pub fn moments(&self) -> MomentStorage {
        let (OptimizerConfig::Sgd { moments, .. }
        | OptimizerConfig::Adam { moments, .. }
        | OptimizerConfig::AdamW { moments, .. }
        | OptimizerConfig::RmsProp { moments, .. }
        | OptimizerConfig::Lion { moments, .. }) = self;
        *moments
    }

    /// Checks that every value is in its range; the error names the first that is not.
    pub fn validate(&self) -> Result<(), OptimizerError> {
        let groups = match self {
            OptimizerConfig::Sgd {
                learning_rate,
                momentum,
                dampening,
                nesterov,
                weight_decay,
                groups,
                ..
            } => {
                positive("learning_rate", *learning_rate)?;
                share("momentum", *momentum)?;
                not_negative("weight_decay", *weight_decay)?;
                if !(0.0..=1.0).contains(dampening) {
                    return Err(out_of_range("dampening", "from 0 to 1", *dampening));
                }
                if *nesterov && (*momentum == 0.0 || *dampening != 0.0) {
                    return Err(OptimizerError::Nesterov);
                }
                groups
            }
            OptimizerConfig::Adam {
                learning_rate,
                beta1,
                beta2,
                epsilon,
                weight_decay,
                groups,
                ..
            }
            | OptimizerConfig::AdamW {
                learning_rate,
                beta1,
                beta2,
                epsilon,
                weight_decay,
                groups,
                ..
            } => {
                positive("learning_rate", *learning_rate)?;
                share("beta1", *beta1)?;
                share("beta2", *beta2)?;
                positive("epsilon", *epsilon)?;
                not_negative("weight_decay", *weight_decay)?;
                groups
            }
            OptimizerConfig::RmsProp {
                learning_rate,
                alpha,
                epsilon,
                momentum,
                centered,
                weight_decay,
                moments,
                groups,
            } => {
                positive("learning_rate", *learning_rate)?;
                share("alpha", *alpha)?;
                positive("epsilon", *epsilon)?;
                share("momentum", *momentum)?;
                not_negative("weight_decay", *weight_decay)?;
                if *centered && *moments == MomentStorage::Bf16 {
                    return Err(OptimizerError::NarrowVariance);
                }
                groups
            }
            OptimizerConfig::Lion {
                learning_rate,
                beta1,
                beta2,
                weight_decay,
                groups,
                ..
            } => {
                positive("learning_rate", *learning_rate)?;
                share("beta1", *beta1)?;
                share("beta2", *beta2)?;
                not_negative("weight_decay", *weight_decay)?;
                groups
            }
        };
        for group in groups {
            not_negative("learning_rate_scale", group.learning_rate_scale)?;
            not_negative("weight_decay", group.weight_decay.unwrap_or(0.0))?;
        }
        Ok(())
    }

    /// Builds the optimizer for these parameters, before its first step.
    ///
    /// # Errors
    ///
    /// Those of [`validate`](OptimizerConfig::validate), or if a group's pattern matches no parameter, or moments can't be stored so on
    /// their device.
    pub fn build(&self, parameters: &Parameters) -> Result<Box<dyn Optimizer>, OptimizerError> {
        self.validate()?;
        let groups = self.groups(parameters)?;
        let moments = self.moments();
        if moments == MomentStorage::Bf16 && !parameters.device().is_cpu() {
            return Err(OptimizerError::NarrowOnDevice);
        }
        Ok(match self {
            OptimizerConfig::Sgd {
                learning_rate,
                momentum,
                dampening,
                nesterov,
                ..
            } => {
                let sgd = Sgd::new(*learning_rate).with_momentum(*momentum, *dampening, *nesterov);
                Box::new(sgd.with_groups(groups).with_moments(moments))
            }
            OptimizerConfig::Adam {
                learning_rate,
                beta1,
                beta2,
                epsilon,
                ..
            } => {
                let adam = Adam::new(*learning_rate).with_betas(*beta1, *beta2, *epsilon);
                Box::new(adam.with_groups(groups).with_moments(moments))
            }
            OptimizerConfig::AdamW {
                learning_rate,
                beta1,
                beta2,
                epsilon,
                ..
            } => {
                let adamw = AdamW::new(*learning_rate).with_betas(*beta1, *beta2, *epsilon);
                Box::new(adamw.with_groups(groups).with_moments(moments))
            }
            OptimizerConfig::RmsProp {
                learning_rate,
                alpha,
                epsilon,
                momentum,
                centered,
                ..
            } => {
                let rmsprop = RmsProp::new(*learning_rate).with_alpha(*alpha, *epsilon);
                let rmsprop = rmsprop.with_momentum(*momentum, *centered);
                Box::new(rmsprop.with_groups(groups).with_moments(moments))
            }
            OptimizerConfig::Lion {
                learning_rate,
                beta1,
                beta2,
                ..
            } => {
                let lion = Lion::new(*learning_rate).with_betas(*beta1, *beta2);
                Box::new(lion.with_groups(groups).with_moments(moments))
            }
        })
    }

    /// Returns the groups, with their learning rates and weight decays.
    fn groups(&self, parameters: &Parameters) -> Result<Groups, OptimizerError> {
        let (OptimizerConfig::Sgd {
            learning_rate,
            weight_decay,
            groups,
            ..
        }
        | OptimizerConfig::Adam {
            learning_rate,
            weight_decay,
            groups,
            ..
        }
        | OptimizerConfig::AdamW {
            learning_rate,
            weight_decay,
            groups,
            ..
        }
        | OptimizerConfig::RmsProp {
            learning_rate,
            weight_decay,
            groups,
            ..
        }
        | OptimizerConfig::Lion {
            learning_rate,
            weight_decay,
            groups,
            ..
        }) = self;
        Ok(Groups::single(*learning_rate, *weight_decay).split(groups, parameters)?)
    }
}

fn positive(name: &'static str, found: f64) -> Result<(), OptimizerError> {
    if found.is_finite() && found > 0.0 {
        return Ok(());
    }
    Err(out_of_range(name, "above 0", found))
}

fn not_negative(name: &'static str, found: f64) -> Result<(), OptimizerError> {
    if found.is_finite() && found >= 0.0 {
        return Ok(());
    }
    Err(out_of_range(name, "0 or more", found))
}

fn share(name: &'static str, found: f64) -> Result<(), OptimizerError> {
    if (0.0..1.0).contains(&found) {
        return Ok(());
    }
    Err(out_of_range(name, "from 0 to below 1", found))
}

fn out_of_range(name: &'static str, range: &'static str, found: f64) -> OptimizerError {
    OptimizerError::OutOfRange { name, range, found }
}
