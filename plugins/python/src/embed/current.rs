//! The call in progress, which Python's `task` stands for.
//!
//! The view is found through a thread-local variable rather than through the Python object: a task that Python keeps
//! beyond the call, or gives to another thread, finds nothing.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use sconce_plugin_api::ext::Level;
use sconce_plugin_api::{At, Setup, TaskView};

/// What the hook in Python can use at the moment.
pub(super) enum Current<'call> {
    Task(&'call mut TaskView<'call>),
    Setup(&'call Setup<'call>),
}

#[derive(Clone, Copy)]
enum Pointer {
    Task(NonNull<TaskView<'static>>),
    Setup(NonNull<Setup<'static>>),
}

thread_local! {
    static CURRENT: Cell<Option<Pointer>> = const { Cell::new(None) };
}

/// Runs `body` with the task as the current one.
pub(super) fn with_task<T>(task: &mut TaskView<'_>, body: impl FnOnce() -> T) -> T {
    within(Pointer::Task(NonNull::from(task).cast()), body)
}

/// Runs `body` while a hook is being created.
pub(super) fn with_setup<T>(setup: &Setup<'_>, body: impl FnOnce() -> T) -> T {
    within(Pointer::Setup(NonNull::from(setup).cast()), body)
}

fn within<T>(pointer: Pointer, body: impl FnOnce() -> T) -> T {
    /// Puts the previous value back, also after a panic.
    struct Reset(Option<Pointer>);
    impl Drop for Reset {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _reset = Reset(CURRENT.replace(Some(pointer)));
    body()
}

/// Gives `use_it` what is current on this thread. It must not run Python code: nothing is current meanwhile.
pub(super) fn current<T>(use_it: impl for<'call> FnOnce(Option<Current<'call>>) -> T) -> T {
    let pointer = CURRENT.take();
    // SAFETY: `within` sets the pointer while it borrows what it leads to, and takes it back before that ends. Taking it
    // here makes this borrow the only one. `use_it` works with any lifetime, so that nothing of the view can leave it.
    let result = use_it(unsafe {
        match pointer {
            Some(Pointer::Task(task)) => Some(Current::Task(task.cast().as_mut())),
            Some(Pointer::Setup(setup)) => Some(Current::Setup(setup.cast().as_ref())),
            None => None,
        }
    });
    CURRENT.set(pointer);
    result
}

/// Logs a line as the current hook, or keeps it for the next call of any hook.
pub(super) fn log(level: Level, line: String) {
    current(|current| match current {
        Some(Current::Task(task)) => At::any(task).log(level, line),
        Some(Current::Setup(setup)) if level == Level::Warn => setup.warn(line),
        Some(Current::Setup(setup)) => setup.info(line),
        None => keep(level, line),
    });
}

/// Lines that other threads, or code outside of calls, have printed; the rest is dropped and counted.
static KEPT: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());
static HAS_KEPT: AtomicBool = AtomicBool::new(false);
const MOST_KEPT: usize = 1000;

fn keep(level: Level, line: String) {
    let mut kept = KEPT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if kept.len() < MOST_KEPT {
        kept.push((level, line));
    } else if kept.len() == MOST_KEPT {
        kept.push((Level::Warn, "… and more lines, which are dropped".into()));
    }
    HAS_KEPT.store(true, Ordering::Release);
}

/// Lines that were printed outside of calls since the last time.
pub(super) fn take_kept() -> Vec<(Level, String)> {
    if !HAS_KEPT.load(Ordering::Acquire) {
        return Vec::new();
    }
    HAS_KEPT.store(false, Ordering::Release);
    let mut kept = KEPT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    std::mem::take(&mut *kept)
}
