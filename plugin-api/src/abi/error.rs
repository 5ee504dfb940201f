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

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of failure; not [`Status::OK`].
    pub status: Status,
    /// The reason, for the user; may be empty.
    pub message: String,
}

impl Refusal {
    /// There is nothing of this name or at this index; without a message.
    pub const NOT_FOUND: Refusal = Refusal {
        status: Status::NOT_FOUND,
        message: String::new(),
    };

    /// A refusal with its reason.
    #[cold]
    pub fn new(status: Status, message: impl Into<String>) -> Refusal {
        let message = message.into();
        Refusal { status, message }
    }

    /// An argument is out of range.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(Status::INVALID, message)
    }

    /// The host's answer, as the client has received it.
    #[cold]
    pub(crate) fn given(status: u32, error: &ErrorAbi) -> Refusal {
        Refusal::new(Status(status), error.message.as_str())
    }

    /// Stores the message if the plugin asked for one, and returns the status.
    ///
    /// # Safety
    ///
    /// `error` must be null or point to an [`ErrorAbi`] that nothing else accesses during the call.
    #[cold]
    pub unsafe fn answer(self, error: *mut ErrorAbi) -> u32 {
        // SAFETY: guaranteed by the caller.
        let error = unsafe { error.as_mut() }.filter(|_| !self.message.is_empty());
        if let Some(error) = error {
            error.message = RString::from(self.message);
        }
        self.status.0
    }
}

impl<M: Into<String>> From<(Status, M)> for Refusal {
    fn from((status, message): (Status, M)) -> Refusal {
        Refusal::new(status, message)
    }
}
