//! The task view: what a hook can read from the running task and request of it.

mod ask;
mod at;
mod call;
mod checkpoints;
mod device;
mod facts;
mod forward;
mod gpu;
mod metrics;
mod module;
pub mod moment;
mod payload;
mod progress;
mod ranks;
mod screen;
mod storage;
mod tensors;
mod threads;
mod values;
mod vectors;

pub use ask::Groups;
pub use at::{
    AfterBackward, AfterCycle, AfterEpoch, AfterForward, AfterIter, AfterLoadCheckpoint, AfterLoop,
    AfterLoss, AfterRun, AfterSaveCheckpoint, AfterUpdate, At, AtEpochProfile, BeforeEpoch,
    BeforeIter, BeforeLoop, BeforeRun, BeforeSaveCheckpoint, BeforeUpdate, ModuleBackward,
    ModuleForward, OnException,
};
pub use call::Call;
pub use checkpoints::CheckpointRequest;
pub use device::{Device, DeviceTensor};
pub use facts::{ModuleFacts, ParameterGroup, TaskFacts};
pub use forward::ForwardPass;
pub use gpu::{Gpu, GpuSpan};
pub use metrics::Metrics;
pub use module::Module;
pub use payload::{Checkpoint, EpochProfile, Failure, HookTime, Origin, Outcome};
pub use progress::Losses;
pub use ranks::Ranks;
pub use screen::Screen;
pub use storage::Storage;
pub use tensors::Tensors;
pub use threads::Threads;
pub use vectors::Vectors;

use crate::abi::ViewAbi;
use crate::ext::{HostCalls, Level, ResumeClient, ResumeTable, Tables};
use crate::{Phase, Point};

/// The running task during one call of a hook, as every mount point sees it: its progress, metrics and parameters, and what
/// hooks publish.
///
/// Each mount point hands its hook an [`At`] of its own moment, which is this view and what that moment allows beyond it. A
/// function that only reads takes a `&TaskView<'_>` from any of them.
///
/// The view is borrowed for the call: safe code can neither keep it nor use it on another thread. No method
/// copies or allocates unless its documentation says so.
///
/// ```compile_fail,E0277
/// use sconce_plugin_api::TaskView;
///
/// fn on_another_thread(task: &TaskView<'_>) {
///     std::thread::scope(|scope| {
///         scope.spawn(|| task.epoch());
///     });
/// }
/// ```
///
/// Epoch, iteration and update count what is *finished*, from 0.
///
/// # Methods by purpose
///
/// - Where the run is: [`point`](TaskView::point), [`phase`](TaskView::phase), [`stream`](TaskView::stream),
///   [`is_initial_validation`](TaskView::is_initial_validation), [`ordinal`](TaskView::ordinal),
///   [`resumed`](TaskView::resumed), [`facts`](TaskView::facts), [`ranks`](TaskView::ranks).
/// - Progress: [`epoch`](TaskView::epoch), [`epochs`](TaskView::epochs), [`iteration`](TaskView::iteration),
///   [`update`](TaskView::update), [`samples`](TaskView::samples), [`batch`](TaskView::batch),
///   [`batches`](TaskView::batches), [`is_whole`](TaskView::is_whole), [`elapsed`](TaskView::elapsed),
///   [`remaining`](TaskView::remaining).
/// - Metrics and learning rates: [`loss`](TaskView::loss), [`losses`](TaskView::losses), [`metric`](TaskView::metric),
///   [`metric_of`](TaskView::metric_of), [`metrics_of`](TaskView::metrics_of),
///   [`publish_metric`](TaskView::publish_metric), [`learning_rate`](TaskView::learning_rate),
///   [`groups`](TaskView::groups).
/// - Tensors: [`parameters`](TaskView::parameters), [`parameter`](TaskView::parameter), [`tensors`](TaskView::tensors),
///   [`storage`](TaskView::storage); passes over all of them: [`Vectors`]; the host's threads:
///   [`threads`](TaskView::threads); the GPU: [`gpu`](TaskView::gpu).
/// - Values exchanged between hooks: [`publish`](TaskView::publish), [`published`](TaskView::published),
///   [`publish_tensor`](TaskView::publish_tensor), [`published_tensor_mut`](TaskView::published_tensor_mut),
///   [`retract`](TaskView::retract).
/// - Messages: [`info`](TaskView::info), [`warn`](TaskView::warn), [`screen`](TaskView::screen).
///
/// What only some moments allow (requests, gradients, the batch, changes in place) is listed at [`At`].
pub struct TaskView<'task> {
    abi: &'task ViewAbi,
    /// Makes the type neither `Send` nor `Sync`: the view may be used on one thread only.
    host: HostCalls<'task>,
}

/// A run that resumes from a checkpoint; see [`TaskView::resumed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resumed {
    /// Whether the checkpoint has a record of this hook.
    ///
    /// A hook that it doesn't know has no state and has not seen the run's earlier part; it can initialise itself from the
    /// restored run at `after_load_checkpoint`.
    pub knows_hook: bool,
}

impl At<'_, moment::Any> {
    /// Logs a message at the given level. Allocates its text.
    pub fn log(&self, level: Level, message: impl std::fmt::Display) {
        TaskView::log(self, level, message);
    }
}

impl<'task> TaskView<'task> {
    pub(crate) fn new(abi: &'task ViewAbi, tables: &'task Tables) -> Self {
        // SAFETY: the host provides the context with the view, for as long as that.
        let host = unsafe { HostCalls::new(tables, abi.context) };
        TaskView { abi, host }
    }

    /// The mount point of this call; `None` if this version of the API doesn't know it.
    pub fn point(&self) -> Option<Point> {
        Point::from_number(self.abi.point)
    }

    /// What the task is doing; [`Phase::Train`] at points outside every phase (`before_run`, `after_run`).
    pub fn phase(&self) -> Phase {
        Phase::from_number(self.abi.phase).unwrap_or(Phase::Train)
    }

    /// Name of the phase's data set: `train`, `val`, `test`, or the task's name for it if a phase has
    /// several.
    pub fn stream(&self) -> &'task str {
        // SAFETY: the host keeps the name alive for as long as the view is borrowed.
        unsafe { self.abi.stream.read() }.unwrap_or_default()
    }

    /// Whether this is the validation before the first training epoch.
    pub fn is_initial_validation(&self) -> bool {
        self.abi.flags & ViewAbi::INITIAL != 0
    }

    /// Number of earlier validations in this epoch.
    pub fn ordinal(&self) -> u64 {
        self.abi.ordinal
    }

    /// Whether the run resumes from a checkpoint, and whether that has a record of this hook.
    ///
    /// In a run that resumes, changes and requests at `before_run` and `before_loop(train)` have no effect: the checkpoint is
    /// restored afterwards, followed by `after_load_checkpoint`.
    pub fn resumed(&self) -> Option<Resumed> {
        let flags = self.host.resume().map_or(0, ResumeClient::flags);
        (flags & ResumeTable::RESUMED != 0).then_some(Resumed {
            knows_hook: flags & ResumeTable::KNOWN != 0,
        })
    }

    /// Shows an informational message to the user, under the hook's name.
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

    /// Warns the user about something that does not end the run but should be known.
    pub fn warn(&self, message: impl std::fmt::Display) {
        self.log(Level::Warn, message);
    }

    /// The same view, for a shorter time.
    #[inline]
    pub(crate) fn reborrow(&mut self) -> TaskView<'_> {
        TaskView { ..*self }
    }

    fn log(&self, level: Level, message: impl std::fmt::Display) {
        self.host.say(level, &message.to_string());
    }
}
