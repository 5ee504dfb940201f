//! How a call across the boundary says that it failed.

use abi_stable::StableAbi;
use abi_stable::std_types::RString;

/// The number that every call across the boundary answers with.
///
/// An open set: a number that the receiving side does not know counts as [`Status::ERROR`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// Done.
    pub const OK: Status = Status(0);
    /// Failed; the message says how.
    pub const ERROR: Status = Status(1);
    /// The plugin's code panicked and the panic was caught.
    pub const PANIC: Status = Status(2);
    /// The hook's configuration was refused.
    pub const CONFIG: Status = Status(3);
    /// The plugin has no hook kind of that name.
    pub const NO_SUCH_KIND: Status = Status(4);
    /// Nothing stands under that name.
    pub const NOT_FOUND: Status = Status(5);
    /// The request is not legal at this mount point.
    pub const NOT_LEGAL_HERE: Status = Status(6);
    /// An argument is out of its range.
    pub const INVALID: Status = Status(7);
    /// The other side does not know this number or name.
    pub const UNSUPPORTED: Status = Status(8);
}

/// What went wrong, filled in by the side that answers with anything but [`Status::OK`].
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct ErrorAbi {
    /// What failed, for people.
    pub message: RString,
    /// Where in the plugin's source, as `src/lib.rs:12:5`, or empty.
    pub place: RString,
}

impl ErrorAbi {
    /// No error yet; allocates nothing.
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
