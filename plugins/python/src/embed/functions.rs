//! What of the Python package `sconce` is called from here.

use std::ptr;
use std::sync::OnceLock;

use super::gil::Ref;
use super::symbols::Object;

/// Functions and objects of the package, for the rest of the process.
pub(super) struct Functions {
    pub(super) create: Ref,
    pub(super) collect: Ref,
    pub(super) finish: Ref,
    pub(super) explain: Ref,
    pub(super) hook_error: Ref,
    /// The task and, as the only item of a tuple, the arguments of most calls.
    pub(super) task: Ref,
    pub(super) task_alone: Ref,
    pub(super) nothing: Ref,
    pub(super) module: Ref,
    pub(super) checkpoint: Ref,
    pub(super) failure: Ref,
    pub(super) outcome: Ref,
    pub(super) profile: Ref,
    /// `sys.prefix`: the environment.
    pub(super) prefix: String,
    /// Whether the process is Python's own.
    pub(super) is_guest: bool,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

impl Functions {
    /// Keeps them, unless others are kept already, and returns those that are.
    pub(super) fn keep(self) -> &'static Functions {
        FUNCTIONS.get_or_init(|| self)
    }
}

/// The functions, once the interpreter has started.
pub(super) fn functions() -> Option<&'static Functions> {
    FUNCTIONS.get()
}

/// The class of errors that the host's refusals become.
pub(super) fn hook_error() -> Object {
    functions().map_or(ptr::null_mut(), |functions| functions.hook_error.pointer())
}
