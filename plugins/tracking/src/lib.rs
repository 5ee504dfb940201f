//! Hooks that bring a run to where experiments are compared:
//!
//! | hook | where |
//! |---|---|
//! | `tensorboard` | event files that TensorBoard reads |
//! | `webhook` | any address, as JSON |
//! | `mlflow` | an MLflow tracking server |

#![forbid(unsafe_code)]

mod http;
mod mlflow;
mod outbox;
mod tensorboard;
mod webhook;

use mlflow::MlFlow;
use sconce_plugin_api::prelude::*;
use tensorboard::TensorBoard;
use webhook::Webhook;

export_plugin!(TensorBoard, Webhook, MlFlow);
