//! The functions of `sconce_host.h`.

use std::ffi::{c_char, c_void};
use std::path::Path;

use sconce_hooks::host::{HookHost, HostError, LoopHooks};
use sconce_hooks::log::Log;
use sconce_lifecycle::Stopping;
use sconce_plugin_api::{Phase, Point};

use super::message::{given, guarded, remember, text};
use super::served::ServedByProgram;
use super::types::{LoopC, OptionsC, TensorC, read};

/// `sconce_host`: the hooks, and what was handed out of them last.
pub struct HostC {
    /// Dropped before `log`, to which they refer.
    hooks: LoopHooks<'static>,
    states: Vec<u8>,
    log: Option<LeakedLog>,
}

/// A log that the hooks refer to as long as they exist; freed with them.
struct LeakedLog(*mut ServedByProgram);

impl Drop for LeakedLog {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and the hooks, dropped before, were all that referred to it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn told(error: HostError) -> String {
    error.to_string()
}

/// Runs `work` with the hooks of a host.
///
/// # Safety
///
/// `host` must be null or one that `sconce_host_start` has returned and that has not ended, used by no other thread now.
unsafe fn with(host: *mut HostC, work: impl FnOnce(&mut HostC) -> Result<i32, HostError>) -> i32 {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let host = unsafe { host.as_mut() }.ok_or("`host` is NULL")?;
        work(host).map_err(told)
    })
}

fn wrong(problem: String) -> HostError {
    HostError::Loop(problem)
}

fn number(stopping: Stopping) -> i32 {
    match stopping {
        Stopping::No => 0,
        Stopping::AfterEpoch => 1,
        Stopping::Now => 2,
    }
}

/// The library's version of this interface.
#[unsafe(no_mangle)]
pub extern "C" fn sconce_host_version() -> u32 {
    1
}

/// Finds, checks and creates the hooks; null on failure.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sconce_host_start(options: *const OptionsC) -> *mut HostC {
    let mut started = None;
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { start(options) }
            .map(|host| started = Some(host))
            .map(|()| 0)
    });
    started.map_or(std::ptr::null_mut(), |host| Box::into_raw(Box::new(host)))
}

/// # Safety
///
/// As the header says.
unsafe fn start(options: *const OptionsC) -> Result<HostC, String> {
    // SAFETY: guaranteed by the caller, for all that follows.
    unsafe {
        let options = read(options, "options")?;
        let document = given(options.hooks, "hooks")?;
        let path = text(options.path, "path")?.unwrap_or("hooks.json");
        let mut setup = HookHost::from_text(document, Path::new(path)).map_err(told)?;
        if let Some(description) = text(options.description, "description")? {
            setup = setup.described(description).map_err(told)?;
        }
        if let Some(directory) = text(options.directory, "directory")? {
            setup = setup.directory(directory);
        }
        setup = setup.foreign_parameters(parameters(&options)?);
        if !options.states.is_null() {
            let states = std::slice::from_raw_parts(options.states, options.states_length);
            setup = setup.resuming(states.to_vec());
        }
        if options.loops.is_null() {
            let hooks = setup.start_events().map_err(told)?;
            return Ok(HostC {
                hooks,
                states: Vec::new(),
                log: None,
            });
        }
        let program: LoopC = read(options.loops, "loop")?;
        let served = ServedByProgram(program);
        let setup = setup.serving(served);
        if program.log.is_none() {
            let hooks = setup.start_events().map_err(told)?;
            return Ok(HostC {
                hooks,
                states: Vec::new(),
                log: None,
            });
        }
        let log = LeakedLog(Box::into_raw(Box::new(served)));
        let shared: &'static dyn Log = &*log.0;
        let hooks = setup.log(shared).start_events().map_err(told)?;
        Ok(HostC {
            hooks,
            states: Vec::new(),
            log: Some(log),
        })
    }
}

/// # Safety
///
/// As the header says.
unsafe fn parameters(
    options: &OptionsC,
) -> Result<Vec<sconce_hooks::bridge::ForeignParameter>, String> {
    let mut parameters = Vec::new();
    let mut at = options.parameters;
    for _ in 0..options.parameter_count {
        // SAFETY: guaranteed by the caller: each is as long as it says, one after the other.
        unsafe {
            let tensor = read(at, "parameters")?;
            parameters.push(tensor.parameter()?);
            at = at.byte_add(tensor.size());
        }
    }
    Ok(parameters)
}

/// Defines functions that take a host, and what else is named.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($host:ident $(, $argument:ident: $type:ty)*) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// As the header says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(host: *mut HostC $(, $argument: $type)*) -> i32 {
                let work = |$host: &mut HostC| -> Result<i32, HostError> { $body };
                // SAFETY: guaranteed by the caller.
                unsafe { with(host, work) }
            }
        )*
    };
}

calls! {
    /// Whether a hook is called at a mount point.
    fn sconce_host_listens(host, point: *const c_char) {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { given(point, "point") }.map_err(wrong)?;
        let point = Point::from_name(name);
        let point = point.ok_or_else(|| wrong(format!("no mount point is called `{name}`")))?;
        Ok(i32::from(host.hooks.listens(point)))
    }

    /// A training epoch begins.
    fn sconce_host_begin_epoch(host, batches: u64) {
        host.hooks.begin_epoch((batches > 0).then_some(batches)).map(|()| 0)
    }

    /// An evaluation begins.
    fn sconce_host_begin_evaluation(host, phase: *const c_char, batches: u64) {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { given(phase, "phase") }.map_err(wrong)?;
        let mut phases = Phase::ALL.iter().filter(|phase| **phase != Phase::Train);
        let phase = phases.find(|phase| phase.name() == name);
        let phase = *phase.ok_or_else(|| {
            wrong(format!("no evaluation is called `{name}`: there are `val`, `test`, `predict`"))
        })?;
        let batches = (batches > 0).then_some(batches);
        host.hooks.begin_evaluation(phase, batches).map(|()| 0)
    }

    /// Shows a tensor of the batch.
    fn sconce_host_show(host, tensor: *const TensorC) {
        // SAFETY: guaranteed by the caller.
        let (name, tensor) = unsafe {
            read(tensor, "tensor").and_then(|tensor| tensor.foreign())
        }.map_err(wrong)?;
        host.hooks.shared().tensors.foreign.show(name.to_owned().into(), tensor);
        Ok(0)
    }

    /// A batch begins.
    fn sconce_host_begin_batch(host, samples: u64, updates: i32) {
        let updates = (updates >= 0).then_some(updates != 0);
        host.hooks.begin_batch(samples, updates).map(i32::from)
    }

    /// The outputs are there.
    fn sconce_host_after_forward(host) {
        host.hooks.after_forward().map(|()| 0)
    }

    /// The loss is there.
    fn sconce_host_after_loss(host, loss: f64, factor: *mut f64) {
        let scale = host.hooks.after_loss(Some(loss))?;
        // SAFETY: guaranteed by the caller.
        if let Some(factor) = unsafe { factor.as_mut() } {
            *factor = scale;
        }
        Ok(0)
    }

    /// The batch's gradients are there.
    fn sconce_host_after_backward(host, gradients: *const *mut c_void, count: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { lend(host, gradients, count) };
        let called = host.hooks.after_backward();
        host.hooks.shared().tensors.foreign.clear_gradients();
        called.map(|()| 0)
    }

    /// The update's gradients are there.
    fn sconce_host_before_update(host, gradients: *const *mut c_void, count: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { lend(host, gradients, count) };
        let called = host.hooks.before_update();
        host.hooks.shared().tensors.foreign.clear_gradients();
        called.map(i32::from)
    }

    /// The optimizer has stepped.
    fn sconce_host_after_update(host) {
        host.hooks.after_update().map(|()| 0)
    }

    /// The batch is over.
    fn sconce_host_end_batch(host) {
        host.hooks.end_batch().map(number)
    }

    /// The epoch is over.
    fn sconce_host_end_epoch(host, is_complete: i32) {
        let is_complete = (is_complete >= 0).then_some(is_complete != 0);
        host.hooks.end_epoch(is_complete)?;
        Ok(number(host.hooks.stopping()))
    }

    /// The evaluation is over.
    fn sconce_host_end_evaluation(host) {
        host.hooks.end_evaluation()?;
        Ok(number(host.hooks.stopping()))
    }

    /// The epoch and its validation are over.
    fn sconce_host_end_cycle(host) {
        host.hooks.end_cycle()?;
        Ok(number(host.hooks.stopping()))
    }

    /// The training is over.
    fn sconce_host_end_training(host) {
        host.hooks.end_training().map(|()| 0)
    }

    /// Sets a metric of the pass in progress.
    fn sconce_host_metric(host, name: *const c_char, value: f64) {
        // SAFETY: guaranteed by the caller.
        host.hooks.metric(unsafe { given(name, "name") }.map_err(wrong)?, value);
        Ok(0)
    }

    /// Whether hooks have frozen a parameter.
    fn sconce_host_is_frozen(host, parameter: *const c_char) {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { given(parameter, "parameter") }.map_err(wrong)?;
        Ok(i32::from(host.hooks.is_frozen(name)))
    }

    /// The hooks' states.
    fn sconce_host_states(host, states: *mut *const u8, length: *mut usize) {
        host.states = host.hooks.states()?;
        // SAFETY: guaranteed by the caller.
        if let (Some(states), Some(length)) = unsafe { (states.as_mut(), length.as_mut()) } {
            *states = host.states.as_ptr();
            *length = host.states.len();
        }
        Ok(0)
    }

    /// The checkpoint is on disk, or is not.
    fn sconce_host_saved(host, path: *const c_char, error: *const c_char) {
        // SAFETY: guaranteed by the caller.
        let (path, error) = unsafe { (given(path, "path"), text(error, "error")) };
        let (path, error) = (path.map_err(wrong)?, error.map_err(wrong)?);
        let written = error.map_or(Ok(()), |error| Err(error.to_owned()));
        host.hooks.saved(Path::new(path), &written).map(|()| 0)
    }

    /// Goes back to states.
    fn sconce_host_restore(host, states: *const u8, length: usize) {
        if states.is_null() {
            return Err(wrong("`states` is NULL".to_owned()));
        }
        // SAFETY: guaranteed by the caller.
        host.hooks.restore(unsafe { std::slice::from_raw_parts(states, length) }).map(|()| 0)
    }
}

/// Shows gradients until they are cleared.
///
/// # Safety
///
/// As the header says.
unsafe fn lend(host: &HostC, gradients: *const *mut c_void, count: usize) {
    if gradients.is_null() {
        return;
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        let gradients = std::slice::from_raw_parts(gradients, count);
        host.hooks.shared().tensors.foreign.set_gradients(gradients);
    }
}

/// The learning rate of a group; negative if there is none of this name.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sconce_host_learning_rate(host: *mut HostC, group: *const c_char) -> f64 {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { host.as_ref().zip(text(group, "group").ok()) };
    let Some((host, group)) = found else {
        remember("`host` is NULL, or `group` is not UTF-8");
        return -1.0;
    };
    let groups = host.hooks.shared().optimizer.groups.borrow();
    let Some(name) = group else {
        return groups.default().learning_rate;
    };
    let named = groups.iter().find(|group| *group.name == *name);
    named.map_or(-1.0, |group| group.learning_rate)
}

/// The run ends; the host is gone.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sconce_host_finish(host: *mut HostC) -> i32 {
    // SAFETY: guaranteed by the caller.
    guarded(|| unsafe { end(host, LoopHooks::finish) })
}

/// The loop has failed; the host is gone.
///
/// # Safety
///
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sconce_host_fail(host: *mut HostC, message: *const c_char) -> i32 {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let message = unsafe { text(message, "message") }.ok().flatten();
        let message = message.unwrap_or("the loop has failed");
        // SAFETY: guaranteed by the caller.
        unsafe { end(host, |hooks| hooks.fail(message)) }
    })
}

/// Takes a host back and ends it.
///
/// # Safety
///
/// As the header says.
unsafe fn end(
    host: *mut HostC,
    ending: impl FnOnce(LoopHooks<'static>) -> Result<(), HostError>,
) -> Result<i32, String> {
    if host.is_null() {
        return Err("`host` is NULL".to_owned());
    }
    // SAFETY: `sconce_host_start` has made it of a box, and nothing uses it any more.
    let HostC { hooks, log, .. } = *unsafe { Box::from_raw(host) };
    let ended = ending(hooks).map(|()| 0).map_err(told);
    drop(log);
    ended
}
