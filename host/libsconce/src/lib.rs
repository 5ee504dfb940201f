//! All of Sconce as one library, `libsconce.so`: what the program of archives and wheels runs (`main_entry`), and Python's extension module
//! `sconce._sconce` (`python`), and hooks for a loop in C (`c_interface`).
//!
//! There is one copy of the code, whichever of them it is opened for.
//!
//! No panic leaves an entry: the program's becomes its exit code, Python's an exception.

#[expect(unsafe_code, reason = "an interface for C")]
mod c_interface;
#[expect(unsafe_code, reason = "an entry for C")]
mod main_entry;
#[expect(unsafe_code, reason = "asks the loader")]
mod place;
mod python;

/// As in the program, see there. Its thread-local variables are of the local-dynamic model (the feature `local_dynamic_tls`): a
/// library that is opened late must not take from the little room that the loader keeps for the others, or a later `import torch` fails.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
