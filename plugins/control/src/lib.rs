//! Hooks that end a run:
//!
//! | hook | ends it when |
//! |---|---|
//! | `early-stopping` | a metric has stopped getting better |
//! | `stop-on-nan` | a number is infinite or none |
//! | `time-limit` | its time is over |
//! | `check` | a metric has not reached what it must |

#![forbid(unsafe_code)]

mod check;
mod early_stopping;
mod stop_on_nan;
mod time_limit;

use check::Check;
use early_stopping::EarlyStopping;
use sconce_plugin_api::prelude::*;
use stop_on_nan::StopOnNan;
use time_limit::TimeLimit;

export_plugin!(EarlyStopping, StopOnNan, TimeLimit, Check);
