//! A created hook: the host's handle to an object owned by a plugin.

use std::ffi::c_void;
use std::ptr;

use abi_stable::std_types::RVec;
use sconce_plugin_api::abi::{ErrorAbi, HookAbi, HookTable, SetupAbi, Status, TextAbi, ViewAbi};

use sconce_plugin_api::HookKind;
use sconce_plugin_api::export::{create_from, kind};

use super::entry_error::EntryError;
use super::library::Library;
use crate::bridge::LossQueries;
use crate::faults::Origin;

/// The value passed to a plugin to be filled in.
const NO_HOOK: HookAbi = HookAbi {
    instance: ptr::null_mut(),
    table: ptr::null(),
};

/// A hook in a plugin. Dropping it drops the plugin's object.
#[derive(Debug)]
pub struct HookInstance {
    abi: HookAbi,
    /// If the object stands in for a hook in another process: what it is.
    apart: Option<ApartOf>,
    /// Whether it reads the loss through `sconce.loss/1`.
    reads_loss_on_demand: bool,
}

/// A hook in another process.
pub trait HookApart {
    /// Whether the process has ended.
    fn has_ended(&self) -> bool;

    /// Whether other ranks have seen something of the call in which the process has ended: the call can't be undone.
    fn was_seen_by_others(&self) -> bool;

    /// The state that was saved last, if any.
    fn last_state(&self) -> Option<&[u8]>;

    /// Ends the process at once, without dropping the hook.
    fn abandon(&mut self);
}

/// Turns an object that stands in for a hook in another process into what it can say of it.
type ApartOf = fn(*mut c_void) -> *mut dyn HookApart;

// The hook is `Send` (its trait requires it), and `&Instance` gives no access to the object.
// SAFETY: the plugin's object may move to another thread, and only `&mut self`, `self` and the dispatcher's
// calls, made one at a time, use it.
unsafe impl Send for HookInstance {}

impl HookInstance {
    /// Creates a hook of `kind` with its configuration as JSON text.
    pub fn create(
        library: &Library,
        kind: &str,
        config: &str,
        setup: &SetupAbi,
    ) -> Result<HookInstance, EntryError> {
        library.check_creation(kind, config)?;
        let mut error = ErrorAbi::new();
        let mut abi = NO_HOOK;
        let origin = Origin::here();
        let queries = LossQueries::watch();
        // SAFETY: the layout of the library's root module was checked when it was opened; the texts, the
        // setup and both output locations are valid for the call.
        let status = unsafe {
            (library.create_entry())(
                TextAbi::new(kind),
                TextAbi::new(config),
                setup,
                &raw mut abi,
                &raw mut error,
            )
        };
        origin.check();
        HookInstance::created(status, abi, &mut error, queries)
    }

    /// Creates a hook that is linked into this program rather than loaded. It goes through the same entry
    /// point as a plugin's.
    pub fn linked<H: HookKind>(config: &str, setup: &SetupAbi) -> Result<HookInstance, EntryError> {
        let mut error = ErrorAbi::new();
        let mut abi = NO_HOOK;
        let queries = LossQueries::watch();
        // SAFETY: the texts, the setup and both output locations are valid for the call.
        let status = unsafe {
            create_from(
                &[kind::<H>()],
                TextAbi::new(H::NAME),
                TextAbi::new(config),
                setup,
                &raw mut abi,
                &raw mut error,
            )
        };
        HookInstance::created(status, abi, &mut error, queries)
    }

    fn created(
        status: u32,
        abi: HookAbi,
        error: &mut ErrorAbi,
        queries: LossQueries,
    ) -> Result<HookInstance, EntryError> {
        if status != Status::OK.0 {
            return Err(EntryError::read(status, error));
        }
        if abi.table.is_null() {
            return Err(EntryError {
                status: Status::ERROR.0,
                message: "the plugin answered that it created the hook, but handed over none"
                    .into(),
                place: String::new(),
            });
        }
        Ok(HookInstance {
            abi,
            apart: None,
            reads_loss_on_demand: queries.were_made(),
        })
    }

    /// A hook in another process, by the object that stands in for it and is what the functions of the table take.
    pub(crate) fn apart<H: HookApart + Send + 'static>(
        hook: Box<H>,
        table: &'static HookTable,
    ) -> HookInstance {
        HookInstance {
            abi: HookAbi {
                instance: Box::into_raw(hook).cast(),
                table: ptr::from_ref(table),
            },
            apart: Some(|object| object.cast::<H>()),
            reads_loss_on_demand: false,
        }
    }

    /// Whether it reads the loss on demand; otherwise the loss must be in its view.
    pub(crate) fn reads_loss_on_demand(&self) -> bool {
        self.reads_loss_on_demand
    }

    /// The error of an entry point that answered with this status.
    pub(crate) fn error(&self, status: u32, error: &mut ErrorAbi) -> EntryError {
        if self.apart.is_some() {
            EntryError::read_apart(status, error)
        } else {
            EntryError::read(status, error)
        }
    }

    fn finish(&self, status: u32, error: &mut ErrorAbi) -> Result<(), EntryError> {
        if status == Status::OK.0 {
            Ok(())
        } else {
            Err(self.error(status, error))
        }
    }

    /// What there is to know of a hook in another process.
    pub fn other_process(&mut self) -> Option<&mut (dyn HookApart + 'static)> {
        let apart = self.apart.filter(|_| !self.abi.instance.is_null())?;
        // SAFETY: the pointer comes from `apart`, has not been dropped, and is this value's own.
        unsafe { apart(self.abi.instance).as_mut() }
    }

    /// The hook's object and its entry point for mount points, for the dispatcher's lists.
    pub(crate) fn entry(&self) -> (*mut c_void, CallEntry) {
        (self.abi.instance, self.table().call)
    }

    fn table(&self) -> &'static HookTable {
        // SAFETY: the pointer was checked not to be null at creation; tables live as long as their library,
        // and libraries are never unloaded.
        unsafe { &*self.abi.table }
    }

    /// Calls the hook outside any run. The view's payload is null.
    pub fn call(&mut self, point: u32, context: *const c_void) -> Result<(), EntryError> {
        let view = ViewAbi {
            context,
            point,
            ..ViewAbi::EMPTY
        };
        let mut error = ErrorAbi::new();
        // SAFETY: the instance has not been dropped; the view, which is the host's, and `error` are valid for the call.
        let status = unsafe {
            (self.table().call)(self.abi.instance, point, &raw const view, &raw mut error)
        };
        self.finish(status, &mut error)
    }

    /// The hook's state, for a checkpoint.
    pub fn save_state(&mut self) -> Result<Vec<u8>, EntryError> {
        let mut error = ErrorAbi::new();
        let mut state = RVec::new();
        // SAFETY: the instance has not been dropped, and both output locations are valid for the call.
        let status =
            unsafe { (self.table().save_state)(self.abi.instance, &raw mut state, &raw mut error) };
        self.finish(status, &mut error)?;
        Ok(state.into_vec())
    }

    /// Restores a state that [`save_state`](HookInstance::save_state) returned.
    pub fn load_state(&mut self, state: &[u8]) -> Result<(), EntryError> {
        let mut error = ErrorAbi::new();
        // SAFETY: the instance has not been dropped; `state` is borrowed and `error` writable for the call.
        let status = unsafe {
            (self.table().load_state)(
                self.abi.instance,
                state.as_ptr(),
                state.len(),
                &raw mut error,
            )
        };
        self.finish(status, &mut error)
    }

    /// Drops the plugin's object, and reports whether that failed.
    pub fn close(mut self) -> Result<(), EntryError> {
        self.drop_object()
    }

    fn drop_object(&mut self) -> Result<(), EntryError> {
        if self.abi.instance.is_null() {
            return Ok(());
        }
        let instance = std::mem::replace(&mut self.abi.instance, ptr::null_mut());
        let mut error = ErrorAbi::new();
        // SAFETY: the instance has not been dropped and is not used again, since its pointer has been
        // replaced with null.
        let status = unsafe { (self.table().drop)(instance, &raw mut error) };
        self.finish(status, &mut error)
    }
}

impl Drop for HookInstance {
    fn drop(&mut self) {
        // Callers that need to know about a failure use `close`.
        drop(self.drop_object());
    }
}

/// A hook's entry point for all mount points.
pub(crate) type CallEntry =
    unsafe extern "C" fn(*mut c_void, u32, *const ViewAbi, *mut ErrorAbi) -> u32;
