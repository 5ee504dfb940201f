//! Hooks that find what is wrong with a training:
//!
//! | hook | does |
//! |---|---|
//! | `anomaly` | names the module that makes the first number that is infinite or none |
//! | `visualize` | pictures of inputs with their targets and predictions |
//! | `gradient-flow` | the gradients' norms, module by module, over time |
//! | `overfit-check` | whether one batch can be learned by heart, and why not |

#![forbid(unsafe_code)]

mod anomaly;
mod gradient_flow;
mod numbers;
mod overfit_check;
mod visualize;

use anomaly::Anomaly;
use gradient_flow::GradientFlow;
use overfit_check::OverfitCheck;
use sconce_plugin_api::prelude::*;
use visualize::Visualize;

export_plugin!(Anomaly, Visualize, GradientFlow, OverfitCheck);
