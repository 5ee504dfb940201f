//! `sconce_host.h`: hooks in a loop of another language.
//!
//! **Parts.** `types`: the header's structures, read with the sizes that the program was compiled with. `served`: the program's functions
//! that serve requests and take messages. `calls`: the functions. `dlpack`: tensors of `DLPack`'s. `message`: the text of the last error.
//!
//! **Flow.** Each function catches panics, turns an error into -1 and its text, and does nothing else that
//! [`LoopHooks`](sconce_hooks::host::LoopHooks) does not.

#![expect(unreachable_pub, reason = "their names are what programs know")]

mod calls;
mod dlpack;
mod message;
mod served;
mod types;
