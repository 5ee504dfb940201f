//! What the standard hooks do on real runs. Each module is one topic:
//!
//! | module | hooks |
//! |---|---|
//! | `debugging` | `anomaly`, `visualize`, `gradient-flow`, `overfit-check` |
//! | `guards` | `loss-spike`, `on-plateau`, and what `stop-on-nan` dumps and rolls back |
//! | `logging` | `progress`, `jsonl`, `samples` (without a model of text), `training-trace` |
//! | `metrics` | `compute-stats`, `accumulate`, `classification`, `predictions`, `output-mask`, `plot-lines` |
//! | `models` | `model-complexity`, `activation-stats` |
//! | `profiling` | `iteration-timer`, `profile`, `trace`, `memory`, `throughput` |
//! | `python` | `python`: hooks in Python, and the examples |
//! | `report` | `report`: one HTML file of the whole run |
//! | `saving` | `save-file`, and the rarer options of `checkpoint` |
//! | `schedules` | `lr-range-test`, `accumulation-schedule`, `loss-scale`, and momentum in `lr-schedule` |
//! | `together` | many at once, stopped and resumed |
//! | `tracking` | `tensorboard`, `webhook`, `mlflow` |
//! | `weights` | `freeze`, `prune`, `grad-noise`, `weight-constraint`, `precise-batchnorm` |
#![allow(
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "tables of cases read best as they are"
)]
#![allow(
    clippy::expect_used,
    reason = "a test that finds its machine broken may say so by panicking"
)]

mod debugging;
mod guards;
mod logging;
mod metrics;
mod models;
mod profiling;
mod python;
mod report;
mod resumed;
mod saving;
mod schedules;
mod together;
mod tracking;
mod weights;
