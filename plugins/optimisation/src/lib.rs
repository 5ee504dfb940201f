//! Hooks that change how parameters are trained:
//!
//! | hook | does |
//! |---|---|
//! | `ema` | keeps an exponential moving average of the parameters, and evaluates it |
//! | `swa` | keeps the mean of the last epochs' parameters, with a learning rate of its own for those epochs |
//! | `lr-schedule` | changes learning rates and momenta by update, epoch or metric |
//! | `lr-range-test` | tries learning rates out and suggests one |
//! | `grad-clip` | clips gradients and publishes their norm |
//! | `grad-noise` | adds decaying noise to gradients |
//! | `freeze` | leaves parameters untrained, up to a point in the run or permanently |
//! | `accumulation-schedule` | sets the number of batches per update by epoch |
//! | `prune` | sets the smallest elements of parameters to zero and keeps them there |
//! | `weight-constraint` | keeps norms or signs of parameters within bounds |
//! | `loss-scale` | scales the loss and skips updates whose gradients are not finite |
//! | `precise-batchnorm` | recomputes the statistics of batch norms for evaluations |

#![forbid(unsafe_code)]

mod accumulation_schedule;
mod averages;
mod ema;
mod freeze;
mod grad_clip;
mod grad_noise;
mod loss_scale;
mod lr_range_test;
mod lr_schedule;
mod names;
mod precise_batchnorm;
mod prune;
mod swa;
mod updates;
mod weight_constraint;

use accumulation_schedule::AccumulationSchedule;
use ema::Ema;
use freeze::Freeze;
use grad_clip::GradClip;
use grad_noise::GradNoise;
use loss_scale::LossScale;
use lr_range_test::LrRangeTest;
use lr_schedule::LrSchedule;
use precise_batchnorm::PreciseBatchNorm;
use prune::Prune;
use sconce_plugin_api::prelude::*;
use swa::Swa;
use weight_constraint::WeightConstraint;

export_plugin!(
    Ema,
    Swa,
    LrSchedule,
    LrRangeTest,
    GradClip,
    GradNoise,
    Freeze,
    AccumulationSchedule,
    Prune,
    WeightConstraint,
    LossScale,
    PreciseBatchNorm
);
