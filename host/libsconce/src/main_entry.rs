//! The command line as a function of C's, for the program of archives and wheels.

use std::ffi::c_int;
use std::panic::catch_unwind;

use crate::place;

/// Exit code of a panic, as std has it.
const PANICKED: c_int = 101;

/// Runs the command line of this process and returns its exit code. The arguments are those that the system gave to the
/// process: glibc hands them to every library that it opens.
#[unsafe(no_mangle)]
#[expect(unreachable_pub, reason = "its name is what callers know")]
pub extern "C" fn sconce_main() -> c_int {
    // The panic's message has been printed.
    let code = catch_unwind(|| {
        if let Some(library) = place::of_this_library() {
            sconce::subprocess::set_code(&library);
        }
        sconce::cli::main_code()
    });
    code.map_or(PANICKED, c_int::from)
}
