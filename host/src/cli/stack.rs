//! The stack that commands run on: the system may give the first thread less than they need, by `ulimit -s`.

use std::panic::resume_unwind;
use std::thread;

/// Size in bytes that is enough for any command.
const ENOUGH: usize = 8 << 20;

/// Calls `run` here if the stack may grow to that size or nearly so, else on a thread that has it.
pub(super) fn on_enough<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    if is_enough() {
        return run();
    }
    // Taken back where no thread can be started: the command may still do with less.
    let run = std::sync::Mutex::new(Some(run));
    let take = || run.lock().ok().and_then(|mut run| run.take());
    let result = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("main".to_owned())
            .stack_size(ENOUGH)
            .spawn_scoped(scope, || take().map(|run| run()))
            .ok()?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    match result.or_else(|| take().map(|run| run())) {
        Some(result) => result,
        None => unreachable!("the command is taken once, by the thread or here"),
    }
}

#[cfg(unix)]
fn is_enough() -> bool {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Stack).current;
    limit.is_none_or(|bytes| bytes >= (ENOUGH / 2) as u64)
}

#[cfg(not(unix))]
fn is_enough() -> bool {
    true
}
