//! A hook that writes down, at every mount point, everything that a hook can see.
//!
//! Left out, as no two runs have them in common: times (`elapsed`, `remaining`, the seconds and bytes of a
//! checkpoint, an epoch's profile), and `resumed`, which says that the run is another
//! segment, and the values of metrics that hooks take from a clock or from the system.

use std::cell::RefCell;
use std::fmt::Write;

use sconce::run::{Interrupt, StopSignal};
use sconce_plugin_api::moment::BetweenIterations;
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::tensor::{DType, Tensor};

/// What an observer is to do, and what it has written down.
#[derive(Default)]
pub(super) struct Notes {
    /// One line for each call of an observer.
    pub(super) lines: Vec<String>,
    /// For each tag that an observer has asked for, and for `interrupted`, how many lines there were before its
    /// first mount point. What other hooks save may be parameters alone, and they may delete it.
    pub(super) saved: Vec<(String, usize)>,
    /// Save a checkpoint after each training iteration and after each cycle.
    pub(super) saves: bool,
    /// Interrupt the run in the call that writes this line.
    pub(super) interrupt_at: Option<usize>,
    pub(super) interrupt: Interrupt,
    /// The error that ended the run.
    pub(super) failure: Option<String>,
}

thread_local! {
    pub(super) static NOTES: RefCell<Notes> = RefCell::default();
}

/// Metrics that come from a clock or the system.
const MEASURED: [&str; 8] = [
    "time",
    "per_second",
    "memory",
    "data_",
    "iter_",
    "seconds",
    "elapsed",
    "remaining",
];

/// Whether a metric, a column or a key of a log comes from a clock or the system: its values and, as some have none
/// in the first iterations of a process, whether it is there.
pub(super) fn is_measured(name: &str) -> bool {
    MEASURED.iter().any(|part| name.contains(part))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Config {
    /// Whether it is the one that asks for checkpoints.
    asks: bool,
}

pub(super) struct Observer {
    asks: bool,
}

/// FNV-1a over the bytes of a tensor's elements.
fn digest(tensor: &Tensor<'_>) -> Result<String> {
    fn of<T: sconce_plugin_api::tensor::Element>(
        tensor: &Tensor<'_>,
        bits: impl Fn(&T) -> u64,
    ) -> Result<u64> {
        let elements = tensor.to_contiguous::<T>()?;
        let hash = |hash: u64, element: &T| (hash ^ bits(element)).wrapping_mul(0x100_0000_01b3);
        Ok(elements.iter().fold(0xcbf2_9ce4_8422_2325, hash))
    }
    let hash = match tensor.dtype() {
        Some(DType::F32) => of::<f32>(tensor, |x| u64::from(x.to_bits())),
        Some(DType::F64) => of::<f64>(tensor, |x| x.to_bits()),
        Some(DType::U32) => of::<u32>(tensor, |x| u64::from(*x)),
        Some(DType::I64) => of::<i64>(tensor, |x| x.cast_unsigned()),
        Some(DType::U8) => of::<u8>(tensor, |x| u64::from(*x)),
        other => bail!("{} has elements of {other:?}", tensor.name()),
    };
    Ok(format!(
        "{} {:?} {:x}",
        tensor.name(),
        tensor.shape(),
        hash?
    ))
}

fn digests<'a>(tensors: impl Iterator<Item = Tensor<'a>>) -> Result<Vec<String>> {
    tensors.map(|tensor| digest(&tensor)).collect()
}

/// Everything that the view shows.
fn look(task: &mut TaskView<'_>) -> Result<String> {
    let task = At::any(task);
    let mut text = String::new();
    let mut add = |name: &str, value: &dyn std::fmt::Debug| {
        // Writing to a text can't fail.
        let _ = write!(text, " {name}={value:?}");
    };
    add("stream", &task.stream());
    add("initial", &task.is_initial_validation());
    add("ordinal", &task.ordinal());
    add("epoch", &(task.epoch(), task.epochs()));
    add("iteration", &task.iteration());
    add("update", &task.update());
    add("batch", &(task.batch(), task.batches(), task.is_whole()));
    add("batch_size", &task.batch_size());
    add("samples", &task.samples());
    add("update_due", &task.is_update_due());
    add("loss", &task.loss().map(f64::to_bits));
    add("rate", &task.learning_rate());
    add("rates", &task.groups().collect::<Vec<_>>());
    for phase in Phase::ALL {
        let metrics = task.metrics_of(phase).filter_map(|(name, value)| {
            let is_known = !is_measured(name);
            is_known.then(|| (name, value.to_bits()))
        });
        add(phase.name(), &metrics.collect::<Vec<_>>());
    }
    add("parameters", &digests(task.parameters())?);
    add("gradients", &digests(task.gradients())?);
    add("optimizer", &digests(task.tensors(Collection::Optimizer))?);
    add("variables", &digests(task.variables())?);
    add(
        "indices",
        &task.sample_indices().ok().map(|t| digest(&t)).transpose()?,
    );
    Ok(text)
}

impl Observer {
    fn note(&self, task: &mut TaskView<'_>, detail: &str) -> Result<()> {
        let point = task.point().map_or("?", Point::name);
        let place = if self.asks { "last" } else { "first" };
        let line = format!("{place} {point}({}) {detail}{}", task.phase(), look(task)?);
        NOTES.with_borrow_mut(|notes| {
            notes.lines.push(line);
            if notes.interrupt_at == Some(notes.lines.len()) {
                notes.interrupt.raise(StopSignal::Terminate);
            }
        });
        Ok(())
    }

    fn ask<M: BetweenIterations>(
        &self,
        task: &mut At<'_, M>,
        tag: impl FnOnce(&TaskView<'_>) -> String,
    ) -> Result<()> {
        if self.asks && NOTES.with_borrow(|notes| notes.saves) {
            let tag = tag(task);
            return task.checkpoint(&tag).save();
        }
        Ok(())
    }
}

#[hook(
    name = "observer",
    about = "Writes down everything that a hook can see."
)]
impl Hook for Observer {
    type Config = Config;

    fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Observer { asks: config.asks })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.note(task, "")
    }

    fn before_loop(&mut self, task: &mut BeforeLoop<'_>) -> Result<()> {
        self.note(task, "")
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        self.note(task, "")?;
        if task.phase() == Phase::Val {
            // Waits for the end of the validation.
            return self.ask(task, |task| format!("validated-{}", task.epoch()));
        }
        Ok(())
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        self.note(task, "")?;
        if task.phase() == Phase::Train && task.batch() == 0 {
            return self.ask(task, |task| format!("begun-{}", task.epoch()));
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.note(task, "")?;
        self.ask(task, |task| format!("{}-{}", task.phase(), task.epoch()))
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        self.note(task, "")?;
        self.ask(task, |task| format!("cycle-{}", task.epoch()))
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        self.note(task, "")
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        self.note(task, "")?;
        if task.phase() == Phase::Train {
            return self.ask(task, |task| format!("iteration-{}", task.iteration()));
        }
        Ok(())
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        self.note(task, "")
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        self.note(task, "")
    }

    fn after_backward(&mut self, task: &mut AfterBackward<'_>) -> Result<()> {
        self.note(task, "")
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        self.note(task, "")
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        self.note(task, "")
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        let (input, output) = (digest(&module.input()?)?, digest(&module.output()?)?);
        self.note(task, &format!("{} {input} {output}", module.name()))
    }

    fn module_backward(
        &mut self,
        task: &mut ModuleBackward<'_>,
        module: &Module<'_>,
    ) -> Result<()> {
        let gradient = digest(&module.output_gradient()?)?;
        self.note(task, &format!("{} {gradient}", module.name()))
    }

    fn before_save_checkpoint(
        &mut self,
        task: &mut BeforeSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        if !self.asks && ["last", ""].contains(&checkpoint.asked_by) {
            let saved = (
                checkpoint.tag.to_owned(),
                NOTES.with_borrow(|n| n.lines.len()),
            );
            NOTES.with_borrow_mut(|notes| notes.saved.push(saved));
        }
        self.note(
            task,
            &format!("{} by {}", checkpoint.tag, checkpoint.asked_by),
        )
    }

    fn after_save_checkpoint(
        &mut self,
        task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.note(task, &format!("{} {:?}", checkpoint.tag, checkpoint.error))
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.note(task, "")
    }

    fn epoch_profile(
        &mut self,
        task: &mut AtEpochProfile<'_>,
        profile: &EpochProfile<'_>,
    ) -> Result<()> {
        let names: Vec<&str> = profile.hooks().map(|hook| hook.name).collect();
        self.note(task, &format!("{names:?}"))
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, outcome: &Outcome<'_>) -> Result<()> {
        self.note(task, &format!("{outcome:?}"))
    }
}
