//! Hooks that watch a run, and stop it, roll it back or intervene:
//!
//! | hook | when |
//! |---|---|
//! | `early-stopping` | a metric has stopped improving |
//! | `on-plateau` | a metric has stopped improving on average |
//! | `stop-on-nan` | a value is NaN or infinite |
//! | `loss-spike` | the loss of a batch jumps |
//! | `time-limit` | the time limit is reached |
//! | `check` | a metric has not reached its required value |

#![forbid(unsafe_code)]

mod check;
mod dump;
mod early_stopping;
mod finite;
mod loss_spike;
mod on_plateau;
mod roll_back;
mod stop_on_nan;
mod time_limit;

use check::Check;
use early_stopping::EarlyStopping;
use loss_spike::LossSpike;
use on_plateau::OnPlateau;
use sconce_plugin_api::prelude::*;
use stop_on_nan::StopOnNan;
use time_limit::TimeLimit;

export_plugin!(
    EarlyStopping,
    OnPlateau,
    StopOnNan,
    LossSpike,
    TimeLimit,
    Check
);
