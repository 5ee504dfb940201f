//! Watchdog thread: checks the breadcrumbs for hooks' calls that don't return.
//!
//! A hanging call can't be stopped from outside: it holds the training thread. After a soft limit a
//! warning is printed; after a hard one the process is ended, with its report and, if possible, the
//! parameters.
//!
//! Time is counted in ticks rather than read from a clock: while the process is stopped or the
//! machine sleeps there are none.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use candle_core::Tensor;

use super::suspects::Suspect;
use super::trail::{Crumb, Trail};
use crate::exit;
use crate::hook_id::HookId;
use sconce_base::files;
use sconce_base::held_directory::vanished;
use sconce_manifest::printable;

/// Time limit for saving the parameters.
const RESCUE: Duration = Duration::from_secs(5);

/// Time limit for dropping a hook that has no limit of its own: when the results are written, nothing is lost by not waiting.
/// One in a process of its own is waited for by its proxy, for less.
const DROPPING: Duration = Duration::from_secs(90);

/// File of the saved parameters in the run's directory.
pub(crate) const RESCUED: &str = "rescue.safetensors";

/// Tensors of the parameters, which share their memory with the task's.
pub(super) type Parameters = Arc<Mutex<Vec<(String, Tensor)>>>;

/// Inputs of the watchdog.
pub(super) struct Watch {
    pub(super) trail: &'static Trail,
    pub(super) hooks: Vec<Suspect>,
    /// Time after which a slow call is reported.
    pub(super) slow: Duration,
    pub(super) directory: PathBuf,
    pub(super) parameters: Parameters,
}

/// The running thread; it ends when this value is dropped.
pub(super) struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system refuses to start a thread.
    pub(super) fn start(watch: Watch) -> std::io::Result<Watchdog> {
        let (stop, stopped) = mpsc::channel();
        let tick = tick(&watch);
        let thread = thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                let mut call = WatchedCall::default();
                while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                    look(&watch, &mut call, tick);
                }
            })?;
        Ok(Watchdog {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing, so its result is ignored.
            drop(thread.join());
        }
    }
}

/// Interval of the checks: a small fraction of the shortest limit.
fn tick(watch: &Watch) -> Duration {
    let limits = watch.hooks.iter().filter_map(|hook| hook.time_limit);
    let shortest = limits.fold(watch.slow, Duration::min);
    (shortest / 5).clamp(Duration::from_millis(5), Duration::from_millis(500))
}

/// The current call, as seen by the ticks.
#[derive(Default)]
struct WatchedCall {
    /// Number of the call, and its hook.
    number: Option<(u64, HookId)>,
    time: Duration,
    /// Time at which it is reported next.
    told: Duration,
}

/// Runs one tick.
fn look(watch: &Watch, call: &mut WatchedCall, tick: Duration) {
    let crumb = watch.trail.read();
    let called = crumb
        .hook
        .and_then(|id| Some((id, watch.hooks.get(id.position())?)));
    let Some((id, hook)) = called else {
        *call = WatchedCall::default();
        return;
    };
    if call.number != Some((crumb.entries, id)) {
        *call = WatchedCall {
            number: Some((crumb.entries, id)),
            time: Duration::ZERO,
            told: watch.slow,
        };
        return;
    }
    call.time += tick;
    let dropping = crumb.is_dropping().then_some(DROPPING);
    let limit = hook.time_limit.or(dropping);
    if limit.is_some_and(|limit| call.time >= limit) {
        end(watch, call.time);
    }
    if call.time >= call.told {
        // At one, two, four times the limit, and so on.
        call.told *= 2;
        warn(hook, &crumb, call.time, limit);
    }
}

fn warn(hook: &Suspect, crumb: &Crumb, time: Duration, limit: Option<Duration>) {
    let end = match limit {
        Some(limit) => format!("its limit is {} s", limit.as_secs_f64()),
        None => "it has no limit: `time_limit` in its entry or `limits.call` sets one".to_owned(),
    };
    say(&format!(
        "warning: hook `{}` has not come back from `{}` ({}) for {:.1} s, epoch {}, iteration {}; {end}\n",
        printable::one_line(&hook.name),
        crumb.entry(),
        crumb.phase(),
        time.as_secs_f64(),
        crumb.epoch,
        crumb.iteration,
    ));
}

/// Ends the process, unless another report is already doing so.
fn end(watch: &Watch, time: Duration) {
    if !super::reports::tell_hang(time.as_secs()) {
        return;
    }
    let path = watch.directory.join(RESCUED);
    let words = match rescue(&watch.parameters, path.clone()) {
        Ok(()) => format!(
            "  the parameters, as the hook left them, are in {}\n",
            printable::one_line(&path.display().to_string())
        ),
        Err(reason) => {
            let reason = vanished(&watch.directory).unwrap_or(reason);
            format!("  the parameters could not be saved: {reason}\n")
        }
    };
    say(&printable::lines(&words));
    quit();
}

/// Saves the parameters on another thread, because the hook may hold them locked.
fn rescue(parameters: &Parameters, path: PathBuf) -> Result<(), String> {
    let (done, result) = mpsc::channel();
    let parameters = Arc::clone(parameters);
    let spawned = thread::Builder::new().spawn(move || {
        // The receiver may have given up waiting.
        drop(done.send(save(&parameters, &path)));
    });
    spawned.map_err(|error| error.to_string())?;
    match result.recv_timeout(RESCUE) {
        Ok(result) => result,
        Err(_) => Err(format!(
            "not done after {} s; the hook may hold them",
            RESCUE.as_secs()
        )),
    }
}

fn save(parameters: &Parameters, path: &Path) -> Result<(), String> {
    let parameters = match parameters.lock() {
        Ok(parameters) => parameters,
        Err(poisoned) => poisoned.into_inner(),
    };
    if parameters.is_empty() {
        return Err("there are none yet".to_owned());
    }
    let tensors = parameters
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor));
    let bytes = safetensors::serialize(tensors, None).map_err(|error| error.to_string())?;
    files::write_atomically(path, &bytes).map_err(|error| error.to_string())
}

/// Writes to standard error, which may be closed.
fn say(text: &str) {
    use std::io::Write;
    // Not through std's standard error: the training thread may hold its lock.
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        if let Ok(copy) = std::io::stderr().as_fd().try_clone_to_owned() {
            drop(std::fs::File::from(copy).write_all(text.as_bytes()));
        }
    }
    #[cfg(not(unix))]
    drop(std::io::stderr().write_all(text.as_bytes()));
}

#[cfg(target_os = "linux")]
fn quit() -> ! {
    // SAFETY: `_exit` has no preconditions; it runs nothing that would wait for the hanging call.
    unsafe { libc::_exit(i32::from(exit::HANG)) }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::exit, reason = "the training thread hangs")]
fn quit() -> ! {
    std::process::exit(i32::from(exit::HANG))
}
