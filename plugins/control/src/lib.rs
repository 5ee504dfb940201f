//! Hooks that watch over a run, and end it, go back or step in:
//!
//! | hook | when |
//! |---|---|
//! | `early-stopping` | a metric has stopped getting better |
//! | `on-plateau` | a metric has stopped getting better on the average |
//! | `stop-on-nan` | a number is infinite or none |
//! | `loss-spike` | the loss of a batch jumps |
//! | `time-limit` | its time is over |
//! | `check` | a metric has not reached what it must |

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
