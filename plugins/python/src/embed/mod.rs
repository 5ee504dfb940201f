//! The interpreter inside this process: the only module in `plugins/` with `unsafe`.
//!
//! Hooks elsewhere need none, and a crate of its own would only move it: everything here is about calling the C
//! functions of a library that is found at run time, and is of use to nothing but the `python` hook. What leaves the
//! module is safe: [`start`] and [`Instance`].
//!
//! **Parts.** `symbols` are libpython's functions, `gil` the interpreter's lock and counted references, `start` opens
//! and initialises, `functions` is what of the package `sconce` is called. `objects` (with `arguments`) and `tensor` are the two types
//! that Python sees, made by `types`; `dlpack` is the second way to share a tensor. `instance` is a hook, `payload` what it hands over,
//! `current` the call in progress. `explain` makes errors of exceptions, `raise` sets exceptions, `waits` notices threads that make
//! calls late. The rest of what Python sees is written in Python, in `sconce/`.
//!
//! **Flow.** A call takes the lock, makes its task the current one, calls the method, and gives the lock back. Python
//! reads attributes and calls methods of `task`, which `objects` passes on to the current [`TaskView`].
//!
//! **Why it is sound.** References are used and dropped with the lock only. The current task is borrowed by one of
//! Python's calls at a time, and by none once the hook's call is over. A tensor's memory is kept by a token of
//! `sconce.retain/1`, so that no address goes stale; that nothing writes to it afterwards is checked after each call.

mod arguments;
mod current;
mod dlpack;
mod explain;
mod functions;
mod gil;
mod instance;
mod objects;
mod payload;
mod raise;
mod start;
mod symbols;
mod tensor;
mod types;
mod waits;

pub(crate) use instance::{Instance, Source};
pub(crate) use payload::Payload;
pub(crate) use start::{join, start};
