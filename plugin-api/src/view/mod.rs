//! The task view: what a hook can read from the running task and request of it.

mod ask;
mod call;
mod device;
mod facts;
mod gpu;
mod metrics;
mod module;
mod payload;
mod progress;
mod ranks;
mod retain;
mod screen;
mod tensors;
mod threads;
mod values;
mod vectors;

use std::marker::PhantomData;

pub use call::Call;
pub use device::{Device, DeviceTensor};
pub use facts::{ModuleFacts, TaskFacts};
pub use gpu::{Gpu, GpuSpan};
pub use metrics::Metrics;
pub use module::Module;
pub use payload::{Checkpoint, EpochProfile, Failure, HookTime, Origin, Outcome};
pub use ranks::Ranks;
pub use tensors::Tensors;
pub use threads::Threads;
pub use vectors::Vectors;

use crate::abi::ViewAbi;
use crate::ext::{Level, ResumeTable, Tables};
use crate::{HookError, Phase, Point, Result};

/// The running task during one call of a hook: its progress, metrics and tensors, and requests to it.
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
/// Epoch, iteration and update count what is *finished*, from 0. Requests are served after all hooks of the
/// point have run. Each method says where it is legal (see also
/// [`Hook`](crate::Hook#what-may-be-requested-where)); elsewhere, and if the host lacks the extension that it
/// needs, it returns an error.
///
/// # Methods by purpose
///
/// ## Current call
///
/// - [`point`](TaskView::point), [`phase`](TaskView::phase), [`stream`](TaskView::stream): where the run is.
/// - [`is_initial_validation`](TaskView::is_initial_validation), [`ordinal`](TaskView::ordinal): which
///   validation this is.
/// - [`is_resumed`](TaskView::is_resumed), [`is_new_to_run`](TaskView::is_new_to_run): whether the run
///   resumed from a checkpoint.
/// - [`facts`](TaskView::facts): names, shapes and sizes that do not change during the run.
/// - [`ranks`](TaskView::ranks): the processes that train together.
///
/// ## Progress
///
/// - [`epoch`](TaskView::epoch), [`epochs`](TaskView::epochs), [`iteration`](TaskView::iteration),
///   [`update`](TaskView::update), [`samples`](TaskView::samples): counters of the run.
/// - [`batch`](TaskView::batch), [`batches`](TaskView::batches), [`batch_size`](TaskView::batch_size),
///   [`is_whole`](TaskView::is_whole), [`is_update_due`](TaskView::is_update_due): position in the current
///   pass.
/// - [`elapsed`](TaskView::elapsed), [`remaining`](TaskView::remaining): time.
///
/// ## The GPU
///
/// - [`gpu`](TaskView::gpu): its memory and load; [`synchronize`](TaskView::synchronize) waits for it.
/// - [`record_gpu`](TaskView::record_gpu), [`take_gpu_spans`](TaskView::take_gpu_spans): when it did what.
///
/// ## Metrics and learning rates
///
/// - [`loss`](TaskView::loss), [`has_loss`](TaskView::has_loss), [`is_loss_awaited`](TaskView::is_loss_awaited),
///   [`recent_losses`](TaskView::recent_losses), [`metric`](TaskView::metric), [`metric_of`](TaskView::metric_of),
///   [`metrics_of`](TaskView::metrics_of): reading metrics; [`publish_metric`](TaskView::publish_metric) adds
///   one.
/// - [`learning_rate`](TaskView::learning_rate), [`learning_rates`](TaskView::learning_rates),
///   [`learning_rate_of`](TaskView::learning_rate_of): reading learning rates.
///
/// ## Tensors
///
/// - Parameters: [`parameters`](TaskView::parameters), [`parameter`](TaskView::parameter),
///   [`parameter_mut`](TaskView::parameter_mut), [`for_each_parameter`](TaskView::for_each_parameter).
/// - Gradients: [`gradients`](TaskView::gradients), [`gradient`](TaskView::gradient),
///   [`gradient_mut`](TaskView::gradient_mut), [`for_each_gradient`](TaskView::for_each_gradient).
/// - Batch: [`inputs`](TaskView::inputs), [`inputs_mut`](TaskView::inputs_mut),
///   [`targets`](TaskView::targets), [`sample_indices`](TaskView::sample_indices),
///   [`outputs`](TaskView::outputs), [`outputs_mut`](TaskView::outputs_mut),
///   [`variables`](TaskView::variables), [`variable`](TaskView::variable).
/// - All at once, done by the host: [`reduce_vectors`](TaskView::reduce_vectors),
///   [`change_vectors`](TaskView::change_vectors), [`combine_vectors`](TaskView::combine_vectors).
/// - Optimizer state: [`optimizer_state`](TaskView::optimizer_state),
///   [`optimizer_tensor`](TaskView::optimizer_tensor).
/// - [`retain`](TaskView::retain), [`retain_mut`](TaskView::retain_mut): memory that outlives the call, for other
///   languages' runtimes.
/// - [`device`](TaskView::device),
///   [`device_tensor`](TaskView::device_tensor), [`device_tensor_mut`](TaskView::device_tensor_mut): the device that
///   computes, and tensors where they are on it; all other methods lend host memory.
/// - [`threads`](TaskView::threads): the host's threads, for passes over large tensors.
///
/// ## Published values
///
/// - [`publish`](TaskView::publish), [`published`](TaskView::published), [`retract`](TaskView::retract):
///   values exchanged between hooks.
/// - [`publish_tensor`](TaskView::publish_tensor), [`published_tensor`](TaskView::published_tensor),
///   [`published_tensor_mut`](TaskView::published_tensor_mut),
///   [`parameter_and_published_mut`](TaskView::parameter_and_published_mut): tensors for other hooks, the
///   task's loss, or swapping.
/// - [`add_to_checkpoint`](TaskView::add_to_checkpoint),
///   [`add_tensor_to_checkpoint`](TaskView::add_tensor_to_checkpoint),
///   [`in_checkpoint`](TaskView::in_checkpoint), [`tensor_in_checkpoint`](TaskView::tensor_in_checkpoint):
///   extra entries of checkpoints.
///
/// ## Requests
///
/// - Ending and skipping: [`stop`](TaskView::stop), [`stop_after_epoch`](TaskView::stop_after_epoch),
///   [`skip_batch`](TaskView::skip_batch), [`skip_update`](TaskView::skip_update).
/// - Optimisation: [`set_learning_rate`](TaskView::set_learning_rate),
///   [`set_learning_rate_of`](TaskView::set_learning_rate_of), [`set_momentum`](TaskView::set_momentum),
///   [`set_momentum_of`](TaskView::set_momentum_of), [`set_accumulation`](TaskView::set_accumulation),
///   [`scale_loss`](TaskView::scale_loss), [`freeze`](TaskView::freeze), [`unfreeze`](TaskView::unfreeze),
///   [`renew_statistics`](TaskView::renew_statistics).
/// - Checkpoints: [`save_checkpoint`](TaskView::save_checkpoint),
///   [`save_parameters`](TaskView::save_parameters), [`save_in_background`](TaskView::save_in_background),
///   [`save_parameters_in_background`](TaskView::save_parameters_in_background),
///   [`copy_checkpoint`](TaskView::copy_checkpoint), [`delete_checkpoint`](TaskView::delete_checkpoint),
///   [`publish_weights`](TaskView::publish_weights), [`load_parameters`](TaskView::load_parameters),
///   [`roll_back`](TaskView::roll_back).
/// - Evaluation: [`validate_now`](TaskView::validate_now), [`swap_parameters`](TaskView::swap_parameters),
///   [`swap_back`](TaskView::swap_back).
/// - Module hooks: [`listen_at_modules`](TaskView::listen_at_modules).
///
/// ## Messages
///
/// - [`info`](TaskView::info), [`warn`](TaskView::warn), [`log`](TaskView::log): messages to the user.
/// - [`screen_columns`](TaskView::screen_columns), [`set_status`](TaskView::set_status): the terminal's
///   status line.
pub struct TaskView<'task> {
    abi: &'task ViewAbi,
    tables: &'task Tables,
    /// Makes the type neither `Send` nor `Sync`: the view may be used on one thread only.
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

    /// Whether the run resumes from a checkpoint.
    ///
    /// Changes and requests at `before_run` and `before_loop(train)` then have no effect: the checkpoint is
    /// restored afterwards, followed by `after_load_checkpoint`.
    pub fn is_resumed(&self) -> bool {
        self.resume_flags() & ResumeTable::RESUMED != 0
    }

    /// Whether the run resumes from a checkpoint that contains no record of this hook.
    ///
    /// Such a hook has no state and has not seen the run's earlier part; it can initialise itself from the
    /// restored run at `after_load_checkpoint`.
    pub fn is_new_to_run(&self) -> bool {
        let flags = self.resume_flags();
        flags & ResumeTable::RESUMED != 0 && flags & ResumeTable::KNOWN == 0
    }

    fn resume_flags(&self) -> u64 {
        ResumeTable::ask(self.tables.resume, self.abi.context)
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

    /// Logs a message at the given level. Allocates its text.
    pub fn log(&self, level: Level, message: impl std::fmt::Display) {
        self.tables
            .log(self.abi.context, level, &message.to_string());
    }

    fn lacks(id: &str) -> HookError {
        HookError::new(format_args!(
            "the host lacks the extension `{id}`; update the host"
        ))
    }

    fn table<T>(table: Option<&'static T>, id: &str) -> Result<&'static T> {
        table.ok_or_else(|| Self::lacks(id))
    }
}
