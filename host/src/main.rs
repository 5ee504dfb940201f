//! The `sconce` binary: the library's command line with an allocator of its own.

use std::process::ExitCode;

/// A candle training step allocates and frees hundreds of tensors; with the system's allocator on
/// Linux an MLP's step takes more than four times as long as with this one, because large blocks go
/// back to the kernel and come again page by page. Plugins keep their own allocator: what crosses
/// the boundary is freed by the side that made it.
///
/// A memory checker needs the system's: `--no-default-features` leaves this one out.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sconce::cli::main()
}
