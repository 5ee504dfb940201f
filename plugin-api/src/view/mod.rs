//! The task view: what a hook sees of the running task, and what it may ask.

mod ask;
mod facts;
mod metrics;
mod module;
mod payload;
mod progress;
mod screen;
mod tensors;
mod threads;
mod values;

use std::marker::PhantomData;

pub use facts::{ModuleFacts, TaskFacts};
pub use metrics::Metrics;
pub use module::Module;
pub use payload::{Checkpoint, EpochProfile, Failure, HookTime, Origin, Outcome};
pub use tensors::Tensors;
pub use threads::Threads;

use crate::abi::ViewAbi;
use crate::ext::{Level, ResumeTable, Tables};
use crate::{Error, Phase, Point, Result};

/// The running task at the moment of a call.
///
/// It is borrowed for that call: safe code cannot keep it, and it answers on the training thread
/// alone. Nothing here copies or allocates unless its documentation says so.
///
/// Epoch, iteration and update are three numbers that count what is *finished*, from 0; see
/// [`epoch`](TaskView::epoch), [`iteration`](TaskView::iteration), [`update`](TaskView::update).
pub struct TaskView<'task> {
    abi: &'task ViewAbi,
    tables: &'task Tables,
    /// Not `Send`, not `Sync`: the view answers on one thread.
    thread: PhantomData<*const ()>,
}

impl<'task> TaskView<'task> {
    pub(crate) fn new(abi: &'task ViewAbi, tables: &'task Tables) -> Self {
        TaskView {
            abi,
            tables,
            thread: PhantomData,
        }
    }

    /// The mount point of this call, or nothing where this version of the API doesn't know it.
    pub fn point(&self) -> Option<Point> {
        Point::from_number(self.abi.point)
    }

    /// What the task is doing. At points outside every phase (`before_run`, `after_run`) it is
    /// [`Phase::Train`].
    pub fn phase(&self) -> Phase {
        Phase::from_number(self.abi.phase).unwrap_or(Phase::Train)
    }

    /// The name of the phase's data set: `train`, `val`, `test`, or what the task calls it when a
    /// phase has several.
    pub fn stream(&self) -> &'task str {
        // SAFETY: the host keeps the name for as long as the view is borrowed.
        unsafe { self.abi.stream.read() }.unwrap_or_default()
    }

    /// Whether this validation comes before the first training epoch.
    pub fn is_initial_validation(&self) -> bool {
        self.abi.flags & ViewAbi::INITIAL != 0
    }

    /// How many validations there have been in this epoch before this one.
    pub fn ordinal(&self) -> u64 {
        self.abi.ordinal
    }

    /// Whether the run goes on from a checkpoint. What a hook changes or asks for at `before_run` and
    /// `before_loop(train)` has no effect then: everything is set to what the checkpoint says
    /// afterwards, and `after_load_checkpoint` is called.
    pub fn is_resumed(&self) -> bool {
        self.resume_flags() & ResumeTable::RESUMED != 0
    }

    /// Whether the run goes on from a checkpoint that does not know this hook: the hook has no
    /// state, and has seen nothing of the run's first part. `after_load_checkpoint` is the place to
    /// begin from what is there.
    pub fn is_new_to_run(&self) -> bool {
        let flags = self.resume_flags();
        flags & ResumeTable::RESUMED != 0 && flags & ResumeTable::KNOWN == 0
    }

    fn resume_flags(&self) -> u64 {
        ResumeTable::ask(self.tables.resume, self.abi.context)
    }

    /// Says something to the user through the host, under the hook's name.
    ///
    /// ```
    /// # use sconce_plugin_api::{Result, TaskView};
    /// fn announce(task: &TaskView<'_>) {
    ///     task.info(format_args!("epoch {} is over", task.epoch()));
    /// }
    /// ```
    pub fn info(&self, message: impl std::fmt::Display) {
        self.log(Level::Info, message);
    }

    /// Warns the user: something that the run survives but that they should know.
    pub fn warn(&self, message: impl std::fmt::Display) {
        self.log(Level::Warn, message);
    }

    /// Says something at a level of your choice. Allocates the text.
    pub fn log(&self, level: Level, message: impl std::fmt::Display) {
        crate::setup::log(self.tables, self.abi.context, level, &message.to_string());
    }

    fn lacks(id: &str) -> Error {
        Error::new(format_args!(
            "the host lacks the extension `{id}`; update the host"
        ))
    }

    fn table<T>(table: Option<&'static T>, id: &str) -> Result<&'static T> {
        table.ok_or_else(|| Self::lacks(id))
    }
}
