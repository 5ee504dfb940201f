//! Hooks that change how parameters are trained:
//!
//! | hook | does |
//! |---|---|
//! | `ema` | keeps an exponential moving average of the parameters, and evaluates it |
//! | `swa` | keeps the mean of the last epochs' parameters, and trains them at a rate of their own |

#![forbid(unsafe_code)]

mod averages;
mod ema;
mod swa;

use ema::Ema;
use sconce_plugin_api::prelude::*;
use swa::Swa;

export_plugin!(Ema, Swa);
