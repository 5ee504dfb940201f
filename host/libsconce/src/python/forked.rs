//! Copies of a process that computes have none of its threads: what waits for them would wait for ever.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use super::failure;

/// The process that computed first; 0 before.
static COMPUTES: AtomicU32 = AtomicU32::new(0);

/// To be called before anything is computed: refuses it in a copy of a process that has computed.
pub(super) fn refuse_in_copies(py: Python<'_>) -> PyResult<()> {
    let own = process::id();
    match COMPUTES.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
        Err(first) if first != own => Err(failure::new(
            py,
            "Error",
            "this process was forked from one that has computed with Sconce, and has none of its threads\n\
             hint: start processes by `multiprocessing.set_start_method(\"spawn\")`, or train in the first one only after they are \
             started",
        )),
        _ => Ok(()),
    }
}
