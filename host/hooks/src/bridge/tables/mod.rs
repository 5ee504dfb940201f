//! The functions that plugins call, by extension, and the root that leads to their tables.

mod c;
mod device;
mod facts;
mod forward;
mod gpu;
mod loss;
mod messages;
mod metrics;
mod ranks;
mod requests;
mod retain;
mod tensors;
mod threads;
mod values;
mod vectors;

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use sconce_plugin_api::abi::{ABI_EPOCH, API_VERSION, HostRoot, TextAbi};
use sconce_plugin_api::ext::{self, CTable, LossTable, Served};

use super::BridgeState;
use crate::version::HOST_VERSION;

/// Extensions of this host, for `sconce plugins` and for refusing plugins that require others.
pub const EXTENSIONS: [&str; ext::OF_HOST.len()] = ext::OF_HOST;

pub use c::{NO_MESSAGE, TABLE as C_TABLE};
pub use loss::LossQueries;
pub use tensors::lent_before;
pub use values::readable;

/// Another root for the hooks of this process.
static OTHER_ROOT: OnceLock<Static<&'static HostRoot>> = OnceLock::new();

/// Makes hooks of this process receive another root: that of a hook's own process.
pub fn set_root(root: &'static HostRoot) {
    // Set once, at the start of the process.
    drop(OTHER_ROOT.set(Static(root)));
}

/// The root of this host.
static ROOT: Static<HostRoot> = Static(HostRoot {
    abi_epoch: ABI_EPOCH,
    version: TextAbi::new(HOST_VERSION),
    api_version: TextAbi::new(API_VERSION),
    query,
});

/// Returns the host's root, which every hook receives at its creation.
pub fn root() -> &'static HostRoot {
    if let Some(other) = OTHER_ROOT.get() {
        return other.0;
    }
    &ROOT.0
}

struct Static<T>(T);

// SAFETY: `T` is only ever `HostRoot`, or a reference to one, which is never written to and whose pointers lead to
// `'static` data.
unsafe impl<T> Sync for Static<T> {}

// SAFETY: as above.
unsafe impl<T> Send for Static<T> {}

// SAFETY: a context is null or leads to the state of a run, which is alive during every call of a hook.
unsafe impl Served for BridgeState<'_> {
    unsafe fn of<'a>(context: *const c_void) -> Option<&'a Self> {
        // SAFETY: guaranteed by the caller.
        unsafe { context.cast::<Self>().as_ref() }
    }
}

/// The state of the run that a context leads to, for the call that it was handed out for.
///
/// # Safety
///
/// As of [`Served::of`].
pub(crate) unsafe fn state_of<'a>(context: *const c_void) -> Option<&'a BridgeState<'a>> {
    // SAFETY: guaranteed by the caller.
    unsafe { BridgeState::of(context) }
}

unsafe extern "C" fn query(extension: TextAbi) -> *const c_void {
    // SAFETY: the plugin lends the text for the duration of the call.
    let Some(id) = (unsafe { extension.read() }) else {
        return ptr::null();
    };
    match id {
        CTable::ID => ptr::from_ref(&C_TABLE).cast(),
        LossTable::ID => {
            loss::note_query();
            ext::table_of::<BridgeState<'static>>(id)
        }
        // The lifetime is that of the call: no function of a table keeps anything of the state.
        _ => ext::table_of::<BridgeState<'static>>(id),
    }
}
