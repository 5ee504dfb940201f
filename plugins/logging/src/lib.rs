//! Hooks that log the progress of a run:
//!
//! | hook | what it writes |
//! |---|---|
//! | `jsonl` | a JSON object per line: losses and metrics by iterations and epochs |
//! | `progress` | bars on a terminal, plain lines elsewhere |
//! | `samples` | texts that the model writes from the same prompts in each evaluation |
//! | `training-trace` | one JSON file with the state of the run and why it ended |

#![forbid(unsafe_code)]

mod jsonl;
mod progress;
mod samples;
mod training_trace;
mod window;

use jsonl::JsonLines;
use progress::Progress;
use samples::Samples;
use sconce_plugin_api::prelude::*;
use training_trace::TrainingTrace;

export_plugin!(JsonLines, Progress, Samples, TrainingTrace);
