//! Losses and metrics of batches.
//!
//! On a device they are read when somebody needs them, see [`DeferredMeasures`]. A hook whose plugin doesn't know
//! `sconce.loss/1` finds the loss in its view: it is read before such a hook is called where there is a loss. Metrics and,
//! for other hooks, losses are read by the functions that hooks call.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use candle_core::{DType, Tensor};
use sconce_lifecycle::Position;
use sconce_plugin_api::Phase;

use super::losses::{Deferral, Losses};
#[cfg(doc)]
use crate::bridge::DeferredMeasures;
use crate::bridge::{BridgeState, DeferredBatch, DeferredMeasure, ReadLoss};
use crate::data::Batch;
use crate::nn::StatisticsLog;
use crate::nn::ops::device;
use crate::run::failure::moment;
use crate::run::ranks::state::Ranks;
use crate::run::sums::batch_sums::{self, BatchSums};
use crate::run::sums::loss_weight::LossWeight;
use crate::run::{Divergence, RunError, device_of};
use crate::task::Task;

/// Time between two losses that an observer, such as the live view, is shown.
const VIEW_EVERY: Duration = Duration::from_millis(100);

/// Measures batches.
pub(in crate::run) struct Measures {
    /// Buffer for the values of the task's metrics.
    values: Vec<f64>,
    /// What the last batch adds to the metrics.
    batch: BatchSums,
    /// Whether losses that are not finite end the run.
    checks_finite: bool,
    /// Whether losses and metrics stay on a device until somebody reads them.
    pub(in crate::run) deferral: Deferral,
    pub(in crate::run) losses: Losses,
}

/// A batch and what was computed from it.
#[derive(Clone, Copy)]
pub(in crate::run) struct ComputedBatch<'a> {
    pub(in crate::run) batch: &'a Batch,
    pub(in crate::run) outputs: &'a Tensor,
    pub(in crate::run) loss: &'a Tensor,
}

impl Measures {
    /// Of a task's batches.
    pub(in crate::run) fn new(task: &dyn Task, checks_finite: bool) -> Measures {
        Measures {
            values: vec![0.0; task.metrics().len()],
            batch: BatchSums::default(),
            checks_finite,
            deferral: Deferral::default(),
            losses: Losses::default(),
        }
    }

    /// Decides whether batches are measured late: on a device, in a run of one process, if the task can.
    pub(in crate::run) fn begin(
        &mut self,
        task: &dyn Task,
        shared: &BridgeState<'_>,
        is_alone: bool,
    ) {
        self.deferral.is_apart = self.deferral.is_forced || !device_of(task).is_cpu();
        if !self.deferral.is_apart || !is_alone {
            return;
        }
        if let Some(metrics) = task.deferred_metrics() {
            shared.device.deferred.set_metrics(metrics);
            self.deferral.is_on = true;
        }
    }

    /// Computes loss and metrics of a batch, or leaves that for later. Returns the weight of its loss.
    pub(in crate::run) fn measure(
        &mut self,
        computed: ComputedBatch<'_>,
        task: &mut dyn Task,
        position: &mut Position,
        shared: &BridgeState<'_>,
    ) -> candle_core::Result<LossWeight> {
        if self.deferral.is_on {
            return defer(computed, task, position, shared);
        }
        let loss = scalar(computed.loss)?;
        position.pass.loss = Some(loss);
        (self.batch).measure(task, computed.batch, computed.outputs, loss)?;
        Ok(self.batch.loss_weight())
    }

    /// Adds the measured batch to the metrics of its pass, or keeps it for all ranks, with the statistics of its batch norms.
    pub(in crate::run) fn count(
        &mut self,
        task: &dyn Task,
        position: &Position,
        shared: &BridgeState<'_>,
        ranks: Option<&mut Ranks>,
        statistics: &RefCell<StatisticsLog>,
    ) -> Result<(), RunError> {
        if self.deferral.is_on {
            return Ok(());
        }
        let measured = std::mem::take(&mut self.batch);
        let ranks =
            ranks.filter(|ranks| position.phase == Phase::Train || ranks.evaluation.is_some());
        let counted = if let Some(ranks) = ranks {
            self.keep(&measured, task, position, shared, (ranks, statistics))
        } else {
            self.add(position.phase, [&measured], task, shared);
            Ok(())
        };
        self.batch = measured;
        counted
    }

    /// Keeps a batch until all ranks share theirs.
    fn keep(
        &mut self,
        measured: &BatchSums,
        task: &dyn Task,
        position: &Position,
        shared: &BridgeState<'_>,
        (ranks, statistics): (&mut Ranks, &RefCell<StatisticsLog>),
    ) -> Result<(), RunError> {
        let phase = position.phase;
        if phase != Phase::Train {
            if let Some(all) = ranks.keep_evaluated(measured, task.sum_count())? {
                self.add(phase, &all, task, shared);
            }
            return Ok(());
        }
        let recorded = statistics.borrow().to_bytes().map_err(|error| {
            RunError::task("recording batch norms' statistics", position, error)
        })?;
        ranks
            .measured
            .push(measured.of_batch(position.round.index, recorded));
        let mut board = shared.metrics.borrow_mut();
        let kept = &ranks.measured;
        batch_sums::show_with(&mut board, task, &mut self.values, phase, kept);
        drop(board);
        if position.round.is_repeated {
            ranks.measured.pop();
        }
        Ok(())
    }

    /// Adds batches to the metrics of a pass.
    pub(in crate::run) fn add<'a>(
        &mut self,
        phase: Phase,
        batches: impl IntoIterator<Item = &'a BatchSums>,
        task: &dyn Task,
        shared: &BridgeState<'_>,
    ) {
        let mut board = shared.metrics.borrow_mut();
        batch_sums::add_batches(&mut board, task, &mut self.values, phase, batches);
    }

    /// Reads the results of all batches, and looks at the losses of training.
    pub(in crate::run) fn settle(
        &mut self,
        position: &mut Position,
        shared: &BridgeState<'_>,
    ) -> Result<(), RunError> {
        shared.device.deferred.settle(&shared.metrics);
        show_read_loss(position, shared);
        self.note_read(position, shared)
    }

    /// Looks at the training losses that have been read, by whomever, in the order of batches.
    pub(in crate::run) fn note_read(
        &mut self,
        position: &Position,
        shared: &BridgeState<'_>,
    ) -> Result<(), RunError> {
        if let Some(error) = shared.device.deferred.take_failure() {
            let doing = "reading losses and metrics from the device";
            return Err(RunError::task(doing, position, error));
        }
        for read in shared.device.deferred.take_losses() {
            let ReadLoss {
                phase,
                epoch,
                iteration,
                loss,
            } = read;
            if phase == Phase::Train {
                let at = Position {
                    phase,
                    epoch,
                    iteration,
                    ..Position::start(position.epochs)
                };
                self.note_loss(loss, &at, shared);
            }
        }
        Ok(())
    }

    /// Remembers the first finite training loss, and warns about the first one that is not.
    pub(in crate::run) fn note_loss(&mut self, loss: f64, at: &Position, log: &BridgeState<'_>) {
        if loss.is_finite() {
            self.losses.first = self.losses.first.or(Some(loss));
        } else if self.losses.bad.is_none() && !self.checks_finite {
            self.losses.bad = Some(at.iteration);
            log.warn(&format!(
                "{}: the loss is {}, and will hardly recover: `\"check_finite\": true` under `train` \
                 tells where that comes from, the hook `stop-on-nan` ends such runs; a lower \
                 learning rate may help",
                moment(at),
                loss
            ));
        }
    }

    /// Whether training has diverged, judging by the loss of its last epoch.
    pub(in crate::run) fn divergence(&self, shared: &BridgeState<'_>) -> Option<Divergence> {
        let last = shared.read_metrics().of(Phase::Train).get("loss")?;
        let first = self.losses.first;
        // A loss that starts near 0 may grow a lot and still be small.
        let most = 1000.0 * first.map_or(f64::INFINITY, |first| first.abs().max(1.0));
        (!last.is_finite() || last.abs() > most).then_some(Divergence { first, last })
    }

    /// Reads the loss for an observer, now and then.
    pub(in crate::run) fn read_for_observer(
        &mut self,
        position: &mut Position,
        shared: &BridgeState<'_>,
    ) {
        if !position.pass.loss_waits {
            return;
        }
        let now = Instant::now();
        let viewed = self.deferral.viewed;
        if viewed.is_some_and(|viewed| now.duration_since(viewed) < VIEW_EVERY) {
            return;
        }
        self.deferral.viewed = Some(now);
        // A failure is kept for the next time that results are read.
        shared.device.deferred.settle(&shared.metrics);
        show_read_loss(position, shared);
    }
}

/// Keeps a batch's loss and what its metrics are computed from, to be read later.
fn defer(
    computed: ComputedBatch<'_>,
    task: &dyn Task,
    position: &mut Position,
    shared: &BridgeState<'_>,
) -> candle_core::Result<LossWeight> {
    let ComputedBatch {
        batch,
        outputs,
        loss,
    } = computed;
    let weight = task.loss_weight(batch)?;
    let samples = batch.len() as f64;
    let metrics = task.deferred_metrics();
    let on_device = metrics.map(|metrics| metrics.sums_on_device(outputs, &batch.targets));
    let measure = match on_device.transpose()?.flatten() {
        Some(sums) => DeferredMeasure::Sums(sums),
        None => DeferredMeasure::Outputs(outputs.detach(), device::copy_to_host(&batch.targets)?),
    };
    let measured = DeferredBatch {
        phase: position.phase,
        epoch: position.epoch,
        iteration: position.iteration,
        loss: loss.detach(),
        weight,
        samples,
        measure,
    };
    position.pass.loss = None;
    position.pass.loss_waits = true;
    shared.device.deferred.push(measured, &shared.metrics);
    Ok(LossWeight { weight, samples })
}

/// Puts the last loss, which has been read, into the position.
fn show_read_loss(position: &mut Position, shared: &BridgeState<'_>) {
    if position.pass.loss_waits {
        position.pass.loss = shared.device.deferred.last(position.phase);
        position.pass.loss_waits = false;
    }
    if let Some(enclosing) = &mut position.evaluation.enclosing
        && enclosing.loss_waits
    {
        enclosing.loss = shared.device.deferred.last(Phase::Train);
        enclosing.loss_waits = false;
    }
}

/// The value of a scalar tensor of any float type.
fn scalar(tensor: &Tensor) -> candle_core::Result<f64> {
    match tensor.dtype() {
        DType::F32 => tensor.to_scalar::<f32>().map(f64::from),
        _ => tensor.to_dtype(DType::F64)?.to_scalar::<f64>(),
    }
}
