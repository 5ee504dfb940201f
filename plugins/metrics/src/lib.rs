//! Hooks that evaluate a run's outputs and metrics:
//!
//! | hook | does |
//! |---|---|
//! | `compute-stats` | statistics of any variable, by pass and phase |
//! | `accumulate` | collects variables over a pass, for other hooks and as files |
//! | `classification` | accuracy, precision, recall, F1, specificity, top-k, and the confusion matrix |
//! | `predictions` | target and prediction of each sample, as a table |
//! | `output-mask` | keeps a model from predicting classes that do not occur in the data |
//! | `plot-lines` | chart of metrics over the run |

#![forbid(unsafe_code)]

mod accumulate;
mod classes;
mod classification;
mod compute_stats;
mod contributions;
mod numbers;
mod output_mask;
mod passes;
mod phases;
mod plot_lines;
mod predictions;
mod statistics;
mod variables;
mod watched;

use accumulate::Accumulate;
use classification::Classification;
use compute_stats::ComputeStats;
use output_mask::OutputMask;
use plot_lines::PlotLines;
use predictions::Predictions;
use sconce_plugin_api::prelude::*;

export_plugin!(
    ComputeStats,
    Accumulate,
    Classification,
    Predictions,
    OutputMask,
    PlotLines
);
