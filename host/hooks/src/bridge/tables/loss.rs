//! `sconce.loss/1`.

use std::cell::Cell;
use std::ffi::c_void;
use std::{ptr, slice};

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::LossTable;

use crate::bridge::entry::shared;

static TABLE: LossTable = LossTable { current, recent };

thread_local! {
    /// Whether the table was queried since the creation of a hook began.
    static IS_QUERIED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the table to a plugin, which by that promises to read the loss through it.
pub(super) fn queried() -> *const c_void {
    IS_QUERIED.set(true);
    ptr::from_ref(&TABLE).cast()
}

/// Watches, during the creation of a hook, whether the hook queries the table.
pub struct LossQueries(());

impl LossQueries {
    /// Begins to watch.
    pub(crate) fn watch() -> LossQueries {
        IS_QUERIED.set(false);
        LossQueries(())
    }

    /// Whether the table was queried.
    #[expect(
        clippy::unused_self,
        reason = "what is asked for begins with this watch"
    )]
    pub(crate) fn were_made(self) -> bool {
        IS_QUERIED.get()
    }
}

unsafe extern "C" fn current(context: *const c_void, loss: *mut f64) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the plugin lends memory for one
    // value.
    let (shared, loss) = unsafe { (shared(context), loss.as_mut()) };
    let (Some(shared), Some(loss)) = (shared, loss) else {
        return Status::INVALID.0;
    };
    shared.deferred.settle(&shared.metrics);
    match shared.deferred.last(shared.phase()) {
        Some(last) => {
            *loss = last;
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}

unsafe extern "C" fn recent(context: *const c_void, losses: *mut f64, count: usize) -> usize {
    // SAFETY: the context is the one that the host handed out for this call.
    let Some(shared) = (unsafe { shared(context) }) else {
        return 0;
    };
    if losses.is_null() || count == 0 {
        return 0;
    }
    shared.deferred.settle(&shared.metrics);
    let found = shared.deferred.recent(count);
    // SAFETY: the plugin lends memory for `count` values, of which at most as many are written.
    let lent = unsafe { slice::from_raw_parts_mut(losses, found.len()) };
    lent.copy_from_slice(&found);
    found.len()
}
