//! The `sconce` binary with the system's allocator, for `tests/valgrind.sh`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sconce::cli::main()
}
