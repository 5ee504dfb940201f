//! The `memory` hook: the process's memory, and the GPU's, by mount point and phase.
//!
//! `{"hook": "memory", "config": {"every": 50, "limit": 4096, "on_limit": "stop"}}`

use std::fmt::Write;
use std::path::PathBuf;

use sconce_plugin_api::moment::Stops;
use sconce_plugin_api::prelude::*;

use crate::resident::{Resident, mebibytes};

/// When memory is measured, and where the results go.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Measure every this many training iterations, and batches of other passes, at least 1; and at
    /// the end of each pass. Default 100.
    #[schemars(range(min = 1))]
    every: u64,
    /// The mount points at which such an iteration is measured. Default: all of them.
    points: Vec<Place>,
    /// CSV file under the run's directory that gets a line per measurement; null: none.
    /// Default `memory.csv`.
    file: Option<PathBuf>,
    /// Whether the maximum at each point is printed at the end of each pass. Default true.
    log: bool,
    /// Whether the resident set (`memory`) and its peak (`memory_peak`), in mebibytes, are
    /// published as metrics, at the end of measured iterations and of passes; on a GPU also the
    /// memory of the run's tensors there (`gpu_memory`), its peak (`gpu_memory_peak`), what the
    /// process has taken (`gpu_memory_reserved`), and the fraction of the time in which the GPU was
    /// at work lately (`gpu_utilization`, where the driver tells it). Default true.
    publish: bool,
    /// Limit in mebibytes, above 0: of the resident set, on a GPU of what the process has taken
    /// there. Default: no limit.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    limit: Option<f64>,
    /// Response when the limit is reached. Default `warn`.
    on_limit: OnLimit,
}

/// A mount point of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Place {
    /// The batch has been loaded.
    BeforeIter,
    /// The outputs have been computed.
    AfterForward,
    /// The loss has been computed.
    AfterLoss,
    /// The gradients have been computed.
    AfterBackward,
    /// The parameters have been updated.
    AfterUpdate,
    /// The batch is finished.
    AfterIter,
}

impl Place {
    const ALL: [Place; 6] = [
        Place::BeforeIter,
        Place::AfterForward,
        Place::AfterLoss,
        Place::AfterBackward,
        Place::AfterUpdate,
        Place::AfterIter,
    ];

    fn name(self) -> &'static str {
        match self {
            Place::BeforeIter => "before_iter",
            Place::AfterForward => "after_forward",
            Place::AfterLoss => "after_loss",
            Place::AfterBackward => "after_backward",
            Place::AfterUpdate => "after_update",
            Place::AfterIter => "after_iter",
        }
    }
}

/// Response when the limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum OnLimit {
    /// Print a warning, once.
    Warn,
    /// Stop the run after the iteration, so that it can be saved and resumed elsewhere.
    Stop,
    /// Report an error of this hook.
    Fail,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            every: 100,
            points: Place::ALL.to_vec(),
            file: Some("memory.csv".into()),
            log: true,
            publish: true,
            limit: None,
            on_limit: OnLimit::Warn,
        }
    }
}

/// See the [module](self).
pub(crate) struct Memory {
    config: Config,
    resident: Resident,
    log: Option<LogFile>,
    /// Lines of the current iteration, not yet written.
    lines: String,
    /// Maximum resident set of the current pass, on a GPU of its tensors' memory, in bytes, indexed as [`Place::ALL`]: for training,
    /// and for the other passes, which may lie within a training pass.
    most: [[u64; Place::ALL.len()]; 2],
    /// Whether reaching the limit has been reported.
    is_reported: bool,
}

impl Memory {
    fn pass(task: &TaskView<'_>) -> usize {
        usize::from(task.phase() != Phase::Train)
    }

    /// Measures memory, if this iteration and this point are due.
    fn at(&mut self, at: Place, task: &mut At<'_, impl Stops>) -> Result<()> {
        let is_training = task.phase() == Phase::Train;
        let finished = if is_training {
            task.iteration()
        } else {
            task.batch()
        };
        let number = finished + u64::from(at != Place::AfterIter);
        if !number.is_multiple_of(self.config.every) || !self.config.points.contains(&at) {
            return Ok(());
        }
        let resident = self.look(at.name(), number, task)?;
        if let Some(most) = self
            .most
            .get_mut(Self::pass(task))
            .and_then(|most| most.get_mut(at as usize))
        {
            *most = (*most).max(resident);
        }
        Ok(())
    }

    /// Measures memory; returns the resident set in bytes.
    fn look(&mut self, point: &str, number: u64, task: &mut At<'_, impl Stops>) -> Result<u64> {
        let usage = self.resident.read()?;
        let (resident, peak) = (mebibytes(usage.resident), mebibytes(usage.peak));
        let gpu = task.gpu();
        if self.log.is_some() {
            let (epoch, phase) = (task.epoch(), task.phase());
            // Writing to a string can't fail.
            let _ = write!(
                self.lines,
                "{epoch},{},{phase},{number},{point},{resident:.3},{peak:.3}",
                task.iteration()
            );
            if let Some(gpu) = &gpu {
                let [used, most, reserved] = [gpu.used, gpu.peak, gpu.reserved].map(mebibytes);
                let _ = write!(self.lines, ",{used:.3},{most:.3},{reserved:.3},");
                if let Some(utilization) = gpu.utilization {
                    let _ = write!(self.lines, "{utilization:.2}");
                }
            }
            self.lines.push('\n');
        }
        let is_end = matches!(task.point(), Some(Point::AfterIter | Point::AfterEpoch));
        if self.config.publish && is_end {
            task.publish_metric("memory", resident)?;
            task.publish_metric("memory_peak", peak)?;
            if let Some(gpu) = &gpu {
                task.publish_metric("gpu_memory", mebibytes(gpu.used))?;
                task.publish_metric("gpu_memory_peak", mebibytes(gpu.peak))?;
                task.publish_metric("gpu_memory_reserved", mebibytes(gpu.reserved))?;
                if let Some(utilization) = gpu.utilization {
                    task.publish_metric("gpu_utilization", utilization)?;
                }
            }
        }
        let limited = gpu.map_or(resident, |gpu| mebibytes(gpu.reserved));
        match self.config.limit {
            Some(limit) if limited >= limit => self.reached(limited, limit, point, task)?,
            _ => {}
        }
        Ok(gpu.map_or(usage.resident, |gpu| gpu.used))
    }

    fn reached(
        &mut self,
        resident: f64,
        limit: f64,
        point: &str,
        task: &mut At<'_, impl Stops>,
    ) -> Result<()> {
        let of = if task.gpu().is_some() {
            "the GPU's memory"
        } else {
            "memory"
        };
        let what = format!(
            "the process has {resident:.0} MiB of {of} at `{point}`, the limit is {limit} MiB"
        );
        match self.config.on_limit {
            OnLimit::Fail => bail!("{what}"),
            OnLimit::Stop => task.stop(&what),
            OnLimit::Warn => {
                if !std::mem::replace(&mut self.is_reported, true) {
                    task.warn(what);
                }
                Ok(())
            }
        }
    }

    /// Writes the lines of the current iteration.
    fn flush(&mut self, task: &TaskView<'_>) -> Result<()> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        if self.lines.is_empty() {
            return Ok(());
        }
        if !log.is_begun() {
            log.write("epoch,iteration,phase,batch,point,resident_mib,peak_mib")?;
            let has_gpu = task.gpu().is_some();
            log.write(if has_gpu {
                ",gpu_used_mib,gpu_peak_mib,gpu_reserved_mib,gpu_utilization\n"
            } else {
                "\n"
            })?;
        }
        log.write(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

#[hook(
    name = "memory",
    about = "Says how much memory the process and the GPU have in use, by mount point and phase; minds a limit.",
    priority = HIGH,
    publishes = [
        "memory", "memory_peak", "gpu_memory", "gpu_memory_peak", "gpu_memory_reserved", "gpu_utilization"
    ],
    state = log,
    asks = stop
)]
impl Hook for Memory {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let path = config
            .file
            .as_deref()
            .map(|name| setup.path_below("file", name));
        if config.on_limit != OnLimit::Stop {
            setup.asks(&[])?;
        }
        Ok(Memory {
            log: path.transpose()?.map(LogFile::new),
            config,
            resident: Resident::new()?,
            lines: String::new(),
            most: Default::default(),
            is_reported: false,
        })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if let Some(most) = self.most.get_mut(Self::pass(task)) {
            *most = Default::default();
        }
        Ok(())
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        self.at(Place::BeforeIter, task)
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        self.at(Place::AfterForward, task)
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        self.at(Place::AfterLoss, task)
    }

    fn after_backward(&mut self, task: &mut AfterBackward<'_>) -> Result<()> {
        self.at(Place::AfterBackward, task)
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        self.at(Place::AfterUpdate, task)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        self.at(Place::AfterIter, task)?;
        self.flush(task)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let now = self.look("after_epoch", task.batch(), task)?;
        self.flush(task)?;
        if !self.config.log {
            return Ok(());
        }
        let (peak, of) = match task.gpu() {
            Some(gpu) => (gpu.peak, " of the GPU's memory"),
            None => (self.resident.read()?.peak, ""),
        };
        let mut line = format!(
            "{}, epoch {}: {:.1} MiB{of}, at most {:.1} MiB so far",
            task.phase(),
            task.epoch(),
            mebibytes(now),
            mebibytes(peak)
        );
        let most = self.most.get(Self::pass(task)).copied().unwrap_or_default();
        for (at, bytes) in Place::ALL
            .into_iter()
            .zip(most)
            .filter(|(_, bytes)| *bytes > 0)
        {
            let _ = write!(line, "; {} {:.1}", at.name(), mebibytes(bytes));
        }
        task.info(line);
        Ok(())
    }

    fn on_exception(&mut self, task: &mut OnException<'_>, _failure: &Failure<'_>) -> Result<()> {
        // The measurements of an unfinished iteration may explain the error.
        self.flush(task)?;
        let usage = self.resident.read()?;
        task.info(format_args!(
            "at the error the process has {:.1} MiB, at most it had {:.1} MiB",
            mebibytes(usage.resident),
            mebibytes(usage.peak)
        ));
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        self.lines.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, RunEnd, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn due_iterations_and_the_ends_of_passes_are_measured() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().epochs(1);
        let config = json!({"every": 3, "points": ["before_iter", "after_iter"]});
        let seen = run.drive::<Memory>(config)?;
        let text = seen.file("memory.csv").unwrap();
        // Without the two numbers of memory.
        let rows = text.lines().map(|row| row.rsplitn(3, ',').last().unwrap());
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                "epoch,iteration,phase,batch,point",
                "0,2,train,3,before_iter",
                "0,3,train,3,after_iter",
                "1,4,train,4,after_epoch",
                "1,4,val,2,after_epoch",
            ]
        );
        // Behind the third iteration and the pass.
        assert_eq!(seen.metric(Phase::Train, "memory").len(), 2);
        assert_eq!(seen.metric(Phase::Val, "memory_peak").len(), 1);
        Ok(())
    }

    #[test]
    fn the_limit_warns_once_or_stops_or_fails() -> std::result::Result<(), Failed> {
        let config = |on_limit: &str| json!({"every": 2, "limit": 0.001, "on_limit": on_limit, "log": false});
        let is_told = |text: &str, point: &str| {
            text.starts_with("the process has ")
                && text.ends_with(&format!(
                    " MiB of memory at `{point}`, the limit is 0.001 MiB"
                ))
        };
        let run = ScriptedRun::new();
        let warned = run.drive::<Memory>(config("warn"))?;
        assert!(
            is_told(warned.warnings()[0], "before_iter"),
            "{:?}",
            warned.warnings()
        );
        assert_eq!(
            (warned.warnings().len(), warned.end()),
            (1, &RunEnd::Completed)
        );
        let stopped = run.drive::<Memory>(config("stop"))?;
        assert!(is_told(stopped.stop_reason().unwrap(), "before_iter"));
        assert_eq!(stopped.stopped_at().map(|at| at.iteration), Some(1));
        let failed = run.drive::<Memory>(config("fail")).unwrap_err();
        assert!(is_told(&failed.message, "before_iter"), "{failed}");
        Ok(())
    }
}
