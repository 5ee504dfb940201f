//! The `sconce` binary: the library's command line with its own allocator.

use std::process::ExitCode;

/// A candle training step allocates and frees hundreds of tensors. With the system allocator on
/// Linux an MLP's step takes more than four times as long as with this one, because large blocks
/// are returned to the kernel and faulted in again page by page. Plugins keep their own allocator:
/// memory that crosses the boundary is freed by the side that allocated it.
///
/// A memory checker needs the system allocator: `--no-default-features` leaves this one out.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    sconce::cli::main()
}
