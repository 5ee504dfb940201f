//! Hooks that analyse models:
//!
//! | hook | does |
//! |---|---|
//! | `model-complexity` | parameters, operations and activations, module by module |
//! | `activation-stats` | mean, spread and dead units of module outputs |

#![forbid(unsafe_code)]

mod activations;
mod complexity;
mod table;

use activations::ActivationStats;
use complexity::ModelComplexity;
use sconce_plugin_api::prelude::*;

export_plugin!(ModelComplexity, ActivationStats);
