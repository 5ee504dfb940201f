//! The `trace` hook: records a timeline of chosen iterations, to be viewed in Perfetto.
//!
//! `{"hook": "trace", "config": {"schedule": {"skip_first": 100, "active": 5}}}`
//!
//! Each iteration is a span; within it there is one span per step (data, forward, loss, backward,
//! update), and within the forward pass one per module: from the end of the previous module to its
//! own end. On a GPU these are the times in which its work is queued; the GPU's own time is in
//! tracks of its own, one for its computations, one for copies to it.

mod schedule;
mod timeline;

use std::path::PathBuf;
use std::time::Instant;

use sconce_plugin_api::moment::{ChoosesModules, HasBatch};
use sconce_plugin_api::prelude::*;
use serde_json::{Map, Value, json};

use crate::resident::{Resident, mebibytes};
use schedule::{Schedule, Step};
use timeline::{Timeline, Track};

/// Which iterations are traced, and with what detail.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own in the manifest"
)]
pub(crate) struct Config {
    /// Which training iterations are traced.
    schedule: Schedule,
    /// Directory, under the run's, for the files, one per cycle: `iterations-11-13.json`.
    /// Default `trace`.
    directory: PathBuf,
    /// Whether each module of the forward pass gets a span. Layers that otherwise run fused then
    /// run one at a time. Default true.
    modules: bool,
    /// Whether the modules' spans include the shapes of input and output. Default false.
    shapes: bool,
    /// Whether the resident set, in mebibytes, is plotted beside the spans. Default false.
    memory: bool,
    /// Whether the run stops after the last cycle. Default false.
    stop_after: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            schedule: Schedule::default(),
            directory: "trace".into(),
            modules: true,
            shapes: false,
            memory: false,
            stop_after: false,
        }
    }
}

/// See the [module](self).
pub(crate) struct Trace {
    config: Config,
    directory: PathBuf,
    timeline: Timeline,
    resident: Option<Resident>,
    /// Number of the traced iteration, if one is in progress.
    active: Option<u64>,
    /// The first and last iteration in the timeline, counted from 1.
    iterations: Option<(u64, u64)>,
    /// End of the last span at the current level: where the next one begins.
    mark: Instant,
    /// Start of the current iteration.
    begin: Instant,
    /// Index of the first event of the current forward pass.
    pass: usize,
    /// Start of the current validation or save.
    aside: Instant,
    /// The last value given to `listen_at_modules`.
    listens: Option<bool>,
    /// Whether the GPU's work is being recorded.
    records_gpu: bool,
    run: String,
}

impl Trace {
    /// Adds the step that ends now; it began where the last one ended.
    fn step(&mut self, name: &str) -> Result<()> {
        if self.active.is_none() {
            return Ok(());
        }
        let now = Instant::now();
        let span = (self.mark, now);
        self.timeline.span(name, "step", span, Map::new());
        self.measure(now)?;
        self.mark = now;
        Ok(())
    }

    fn measure(&mut self, now: Instant) -> Result<()> {
        if let Some(resident) = &mut self.resident {
            let resident = mebibytes(resident.read()?.resident);
            self.timeline.counter("memory (MiB)", now, resident);
        }
        Ok(())
    }

    /// Sets whether the hook listens at modules in the iteration that comes next, or that has just begun.
    fn listen(&mut self, task: &mut At<'_, impl ChoosesModules>) -> Result<()> {
        let is_on = self.config.schedule.step(task.iteration()) != Step::Off;
        let listens = self.config.modules && is_on;
        if self.listens.replace(listens) == Some(listens) {
            return Ok(());
        }
        task.listen_at_modules(listens)
    }

    /// Writes the timeline to a file, and clears it.
    fn write(&mut self, task: &TaskView<'_>) -> Result<()> {
        let Some((first, last)) = self.iterations.take() else {
            return Ok(());
        };
        self.end_gpu(task)?;
        if self.timeline.is_empty() {
            return Ok(());
        }
        let path = path_inside(&self.directory, format!("iterations-{first}-{last}.json"))?;
        let text = self.timeline.take(&self.run);
        write_atomically(&path, text)?;
        task.info(format_args!(
            "iterations {first} to {last} are in `{}`",
            path.display()
        ));
        Ok(())
    }

    /// Adds what the GPU has done since the cycle began, which waits for it, and ends the recording.
    fn end_gpu(&mut self, task: &TaskView<'_>) -> Result<()> {
        if !std::mem::take(&mut self.records_gpu) {
            return Ok(());
        }
        let Some(gpu) = task.gpu() else {
            return Ok(());
        };
        let spans = gpu.take_spans();
        gpu.record(false)?;
        // The clocks' difference, once: both are monotonic.
        let (now, elapsed) = (Instant::now(), task.elapsed());
        for span in spans {
            let Some(start) = now.checked_sub(elapsed.saturating_sub(span.begin)) else {
                continue;
            };
            let track = if span.is_copy {
                Track::Copies
            } else {
                Track::Gpu
            };
            self.timeline
                .gpu_span(&span.name, track, (start, start + span.duration));
        }
        Ok(())
    }

    fn end_iteration(&mut self, number: u64, task: &mut At<'_, impl HasBatch>) -> Result<()> {
        let now = Instant::now();
        let mut arguments = Map::new();
        arguments.insert("iteration".to_owned(), json!(number));
        arguments.insert("epoch".to_owned(), json!(task.epoch()));
        arguments.insert("samples".to_owned(), json!(task.batch_size()));
        // A loss that the GPU has not computed yet would change the times that are traced.
        if let Some(loss) = (!task.losses().is_awaited()).then(|| task.loss()).flatten() {
            arguments.insert("loss".to_owned(), json!(loss));
        }
        let name = format!("iteration {number}");
        self.timeline
            .span(name, "iteration", (self.begin, now), arguments);
        let (first, _) = self.iterations.unwrap_or((number, number));
        self.iterations = Some((first, number));
        self.active = None;
        if self.config.schedule.step(number - 1) == (Step::Active { is_last: true }) {
            self.write(task)?;
            if self.config.stop_after && self.config.schedule.is_over(number) {
                task.stop("the last cycle of iterations has been traced")?;
            }
        }
        Ok(())
    }

    /// Whether a cycle is active, between two of its iterations.
    fn is_between(&self) -> bool {
        self.iterations.is_some() && self.active.is_none()
    }

    /// Ends something that is not an iteration.
    fn end_aside(&mut self, name: String, category: &'static str) {
        let now = Instant::now();
        if self.is_between() {
            self.timeline
                .span(name, category, (self.aside, now), Map::new());
        }
        if self.active.is_none() {
            self.mark = now;
        }
    }
}

fn shape(shape: &[i64]) -> Value {
    json!(shape)
}

#[hook(
    name = "trace",
    about = "Writes a timeline of chosen iterations, step by step and module by module, for Perfetto.",
    priority = HIGHEST,
    asks = stop,
    optional = loss
)]
impl Hook for Trace {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let directory = setup.path_below("directory", &config.directory)?;
        if !config.modules {
            setup.leave_out(Point::ModuleForward);
        }
        if !config.stop_after {
            setup.asks(&[])?;
        }
        let schedule = config.schedule;
        let first = [schedule.skip_first, schedule.wait, schedule.warm_up]
            .iter()
            .fold(0, |sum: u64, part| sum.saturating_add(*part));
        if let Some(iterations) = setup.plan()?.map(|plan| plan.iterations())
            && first >= iterations
        {
            setup.warn(format_args!(
                "nothing will be traced: the first iteration in `schedule` is number {}, the run has {iterations}",
                first.saturating_add(1)
            ));
        }
        let now = Instant::now();
        Ok(Trace {
            directory,
            resident: config.memory.then(Resident::new).transpose()?,
            config,
            timeline: Timeline::new(now),
            active: None,
            iterations: None,
            mark: now,
            begin: now,
            pass: 0,
            aside: now,
            listens: None,
            records_gpu: false,
            run: String::new(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.run = task.facts()?.run;
        self.listens = Some(false);
        task.listen_at_modules(false)
    }

    fn before_loop(&mut self, _task: &mut BeforeLoop<'_>) -> Result<()> {
        self.aside = Instant::now();
        Ok(())
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.active = None;
            self.mark = Instant::now();
            self.listen(task)?;
        }
        Ok(())
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            // After a resume `before_epoch` has shown the counters of the epoch's start.
            self.listen(task)?;
        }
        let is_active = matches!(
            self.config.schedule.step(task.iteration()),
            Step::Active { .. }
        );
        if task.phase() != Phase::Train || !is_active {
            return Ok(());
        }
        if !self.records_gpu
            && let Some(gpu) = task.gpu()
        {
            gpu.record(true)?;
            self.records_gpu = true;
        }
        self.active = Some(task.iteration() + 1);
        self.begin = self.mark;
        self.step("data")?;
        self.pass = self.timeline.len();
        Ok(())
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        if self.active.is_none() || task.phase() != Phase::Train {
            return Ok(());
        }
        let now = Instant::now();
        let mut arguments = Map::new();
        arguments.insert("kind".to_owned(), json!(module.kind()));
        if self.config.shapes {
            arguments.insert("input".to_owned(), shape(module.input()?.shape()));
            arguments.insert("output".to_owned(), shape(module.output()?.shape()));
        }
        // Starts at the last module's end, or at the pass's start; for a module with inner modules,
        // at the start of the first of them.
        let events = self.timeline.module_end(self.pass);
        let begin = events.unwrap_or(self.mark);
        let begin = self
            .timeline
            .inside(module.name(), self.pass)
            .unwrap_or(begin);
        self.timeline
            .span(module.name(), "module", (begin, now), arguments);
        Ok(())
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.step("forward")?;
        }
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.step("loss")?;
        }
        Ok(())
    }

    fn after_backward(&mut self, _task: &mut AfterBackward<'_>) -> Result<()> {
        self.step("backward")
    }

    fn before_update(&mut self, _task: &mut BeforeUpdate<'_>) -> Result<()> {
        self.mark = Instant::now();
        Ok(())
    }

    fn after_update(&mut self, _task: &mut AfterUpdate<'_>) -> Result<()> {
        self.step("update")
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        if let Some(number) = self.active {
            self.end_iteration(number, task)?;
        }
        self.mark = Instant::now();
        self.listen(task)
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            self.end_aside(task.phase().name().to_owned(), "loop");
        }
        Ok(())
    }

    fn before_save_checkpoint(
        &mut self,
        _task: &mut BeforeSaveCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.aside = Instant::now();
        Ok(())
    }

    fn after_save_checkpoint(
        &mut self,
        _task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.end_aside(format!("save {}", checkpoint.tag), "checkpoint");
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        // A cycle cut short by the end of the run.
        self.write(task)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};

    use super::*;

    #[test]
    fn scheduled_iterations_are_traced_and_end_the_run() -> std::result::Result<(), Failed> {
        let schedule = json!({"skip_first": 1, "warm_up": 1, "active": 2});
        let run = ScriptedRun::new();
        let seen = run.drive::<Trace>(json!({"schedule": schedule, "stop_after": true}))?;
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.iteration, asked.request, asked.number))
            .collect();
        // Stopped by the last one; so is the listening.
        let listen = Request::ListenAtModules;
        assert_eq!(
            asked,
            [
                (0, listen, 0.0),
                (1, listen, 1.0),
                (4, Request::Stop, 0.0),
                (4, listen, 0.0),
            ]
        );
        assert_eq!(
            seen.stop_reason(),
            Some("the last cycle of iterations has been traced")
        );
        let text = seen.file("trace/iterations-3-4.json").unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap().iter();
        let spans = events.filter(|event| event["ph"] == "X");
        let mut spans: Vec<_> = spans.map(|event| event["name"].as_str().unwrap()).collect();
        let each = [
            "data", "forward", "fc1", "act", "fc2", "loss", "backward", "update",
        ];
        let mut expected = [&each[..], &each, &["iteration 3", "iteration 4"]].concat();
        // Their order is that of their times.
        spans.sort_unstable();
        expected.sort_unstable();
        assert_eq!(spans, expected);
        let config = json!({"schedule": schedule, "directory": "lines", "modules": false});
        let seen = run.drive::<Trace>(config)?;
        assert_eq!(seen.stop_reason(), None);
        let text = seen.file("lines/iterations-3-4.json").unwrap();
        assert!(text.contains("backward") && !text.contains("fc1"), "{text}");
        Ok(())
    }

    #[test]
    fn a_schedule_that_the_run_does_not_reach_is_warned_of() -> std::result::Result<(), Failed> {
        let config = json!({"schedule": {"skip_first": 11}, "modules": false});
        let seen = ScriptedRun::new().drive::<Trace>(config)?;
        assert_eq!(
            seen.warnings(),
            [
                "nothing will be traced: the first iteration in `schedule` is number 13, the run has 12",
            ]
        );
        assert_eq!(seen.called(Point::ModuleForward), 0);
        Ok(())
    }
}
