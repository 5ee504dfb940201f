//! The stack that commands run on: the system may give the first thread less than they need, by `ulimit -s`.

use std::panic::resume_unwind;
use std::thread;

/// Size in bytes that is enough for any command.
const ENOUGH: usize = 8 << 20;

/// Calls `run` here if the stack may grow to that size or nearly so, else on a thread that has it.
pub(in crate::cli) fn on_enough<T: Send>(run: impl Fn() -> T + Sync) -> T {
    if is_enough() {
        return run();
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("main".to_owned())
            .stack_size(ENOUGH)
            .spawn_scoped(scope, &run);
        match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // The command may still do with less.
            Err(_) => run(),
        }
    })
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
