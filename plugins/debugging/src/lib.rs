//! Hooks that find faults in training:
//!
//! | hook | what it does |
//! |---|---|
//! | `anomaly` | names the module that produces the first NaN or infinite value |
//! | `visualize` | draws inputs with their targets and predictions |
//! | `gradient-flow` | records gradient norms per module over time |
//! | `overfit-check` | checks whether the model can overfit one batch, and why not |

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
