//! Status codes and error messages of calls across the boundary.

use abi_stable::StableAbi;
use abi_stable::std_types::RString;

/// Status code that every call across the boundary returns.
///
/// The set is open: an unknown number is treated as [`Status::ERROR`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// Success.
    pub const OK: Status = Status(0);
    /// Failure; the message says why.
    pub const ERROR: Status = Status(1);
    /// The plugin's code panicked, and the panic was caught.
    pub const PANIC: Status = Status(2);
    /// The hook's configuration was refused.
    pub const CONFIG: Status = Status(3);
    /// The plugin has no hook kind of that name.
    pub const NO_SUCH_KIND: Status = Status(4);
    /// There is no entry of that name.
    pub const NOT_FOUND: Status = Status(5);
    /// The request is not legal at this mount point.
    pub const NOT_LEGAL_HERE: Status = Status(6);
    /// An argument is out of range.
    pub const INVALID: Status = Status(7);
    /// The other side does not know this number or name.
    pub const UNSUPPORTED: Status = Status(8);
}

/// Error details, filled in by the callee if the status is not [`Status::OK`].
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct ErrorAbi {
    /// What failed, for the user.
    pub message: RString,
    /// Location in the plugin's source, such as `src/lib.rs:12:5`, or empty.
    pub place: RString,
}

impl ErrorAbi {
    /// An empty error; does not allocate.
    pub const fn new() -> ErrorAbi {
        ErrorAbi {
            message: RString::new(),
            place: RString::new(),
        }
    }
}

impl Default for ErrorAbi {
    fn default() -> Self {
        ErrorAbi::new()
    }
}
