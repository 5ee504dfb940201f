//! Hooks that send a run's results to experiment trackers:
//!
//! | hook | destination |
//! |---|---|
//! | `tensorboard` | event files that TensorBoard reads |
//! | `webhook` | any URL, as JSON |
//! | `mlflow` | an MLflow tracking server |

#![forbid(unsafe_code)]

mod http;
mod mlflow;
mod outbox;
#[cfg(test)]
mod served;
mod tensorboard;
mod webhook;

use mlflow::MlFlow;
use sconce_plugin_api::prelude::*;
use tensorboard::TensorBoard;
use webhook::Webhook;

export_plugin!(TensorBoard, Webhook, MlFlow);
