//! Calls one mount point of so many no-op hooks so many times, for `tests/instructions.sh`: the
//! difference of two runs under valgrind is the cost of the calls alone.
//!
//! Usage: `dispatch-calls LIBRARY HOOKS CALLS`

use std::hint::black_box;
use std::process::ExitCode;

use sconce::bridge::BridgeState;
use sconce::log::MemoryLog;
use sconce_dispatch::noop_hooks_of;
use sconce_lifecycle::Position;
use sconce_plugin_api::Point;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, hooks, calls] = arguments.as_slice() else {
        return ExitCode::from(2);
    };
    let (Ok(count), Ok(calls)) = (hooks.parse(), calls.parse::<u64>()) else {
        return ExitCode::from(2);
    };
    let log = MemoryLog::default();
    let shared = BridgeState::new(&log);
    let mut hooks = noop_hooks_of(library.as_ref(), count, &shared);
    let position = Position::start(1);
    for _ in 0..calls {
        if hooks
            .call(Point::AfterIter, black_box(&position), &shared)
            .is_err()
        {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
