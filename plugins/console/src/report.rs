//! The four kinds of lines, built from the task view at the time.

use std::time::Duration;

use sconce_plugin_api::prelude::*;

use crate::config::{Config, Count};
use crate::line::{Clock, Line};

/// Line at the start of the run.
pub(crate) fn begin(task: &TaskView<'_>) -> String {
    let epochs = count(task.epochs(), "epoch");
    match task.epoch() {
        0 => format!("training {epochs}"),
        done => format!("training {epochs}, of which {done} are done"),
    }
}

/// Line within a training epoch. `loss` is smoothed; `speed` is in samples per second.
pub(crate) fn interval(
    task: &TaskView<'_>,
    config: &Config,
    loss: Option<f64>,
    speed: Option<f64>,
) -> Line {
    let mut line = Line::new(config.digits)
        .with_tables(config.tables)
        .progress("epoch", task.epoch() + 1, task.epochs());
    line = match config.count {
        Count::Epoch => line.progress("batch", task.batch(), task.batches()),
        Count::Run => {
            let all = task.epochs() * task.batches();
            line.progress("iteration", task.iteration(), all)
        }
    };
    if let Some(loss) = loss {
        line = line.metric("loss", loss);
    }
    line.metrics(task.metrics_of(Phase::Train), Some("loss"))
        .learning_rate(task.learning_rate())
        .speed(speed)
        .remaining(task.remaining())
}

/// Line after a pass over a phase's data, which took `time`, with `speed` in samples per second.
pub(crate) fn epoch(
    task: &TaskView<'_>,
    config: &Config,
    time: Duration,
    speed: Option<f64>,
) -> Line {
    let phase = task.phase();
    // After a stop in mid-epoch, the current epoch is not among the finished ones.
    let is_broken_off = phase == Phase::Train && task.batch() < task.batches();
    let epoch = task.epoch() + u64::from(is_broken_off);
    let mut line = Line::new(config.digits)
        .with_tables(config.tables)
        .progress("epoch", epoch, task.epochs());
    if is_broken_off {
        line = line.progress("batch", task.batch(), task.batches());
    }
    line = line.item(phase);
    if task.stream() != phase.name() {
        line = line.item(task.stream());
    }
    line.metrics(task.metrics_of(phase), None)
        .item(format_args!("{:.2} s", time.as_secs_f64()))
        .speed(speed)
}

/// Line at the end of the run.
pub(crate) fn end(task: &TaskView<'_>, outcome: &Outcome<'_>) -> String {
    let time = Clock(task.elapsed());
    let epochs = count(task.epoch(), "epoch");
    let done = format!("{epochs}, {}", count(task.iteration(), "iteration"));
    match outcome {
        Outcome::Completed => format!("completed in {time}: {done}"),
        Outcome::Stopped { reason } => format!("stopped after {time}: {done}: {reason}"),
        Outcome::Interrupted { signal } => format!("ended by {signal} after {time}: {done}"),
        // The host reports the error itself.
        _ => format!("failed after {time}: {done}"),
    }
}

/// `1 epoch`, `2 epochs`.
fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_is_not_plural() {
        assert_eq!(super::count(1, "epoch"), "1 epoch");
        assert_eq!(super::count(0, "iteration"), "0 iterations");
    }
}
