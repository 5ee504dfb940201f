//! Hooks that change how parameters are trained:
//!
//! | hook | does |
//! |---|---|
//! | `ema` | keeps an exponential moving average of the parameters, and evaluates it |
//! | `swa` | keeps the mean of the last epochs' parameters, and trains them at a rate of their own |
//! | `lr-schedule` | changes learning rates with the updates, the epochs or a metric |
//! | `grad-clip` | keeps gradients small, and tells their norm |

#![forbid(unsafe_code)]

mod averages;
mod ema;
mod grad_clip;
mod lr_schedule;
mod swa;

use ema::Ema;
use grad_clip::GradClip;
use lr_schedule::LrSchedule;
use sconce_plugin_api::prelude::*;
use swa::Swa;

export_plugin!(Ema, Swa, LrSchedule, GradClip);
