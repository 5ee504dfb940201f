//! The error type for hook authors, which any error converts to and which records its location.

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;

use crate::abi::Refusal;

/// Result of a hook's methods.
pub type Result<T, E = HookError> = std::result::Result<T, E>;

/// Error of a hook: a message for the user, with the location in the hook's source.
///
/// Any `std` error converts to it through `?`; [`HookError::new`] and [`bail!`](crate::bail) create one from a
/// message.
///
/// ```
/// use sconce_plugin_api::{HookError, Result};
///
/// fn port(text: &str) -> Result<u16> {
///     Ok(text.parse::<u16>()?)
/// }
///
/// let error: HookError = port("eighty").unwrap_err();
/// assert_eq!(error.message(), "invalid digit found in string");
/// assert!(error.place().line() > 0);
/// ```
pub struct HookError {
    message: String,
    place: &'static Location<'static>,
    /// What other languages and formats know better than the Rust source does.
    origin: Option<Box<ErrorOrigin>>,
}

/// Where an error comes from, if not from the Rust source.
#[derive(Default)]
struct ErrorOrigin {
    place: Option<String>,
    config_path: Option<String>,
}

impl HookError {
    /// Creates an error from a message: a lower-case fragment such as "can't open `metrics.csv`".
    #[track_caller]
    #[cold]
    pub fn new(message: impl fmt::Display) -> Self {
        HookError {
            message: message.to_string(),
            place: Location::caller(),
            origin: None,
        }
    }

    /// Reports the error at a location outside the Rust source, such as `hooks/roc.py:12`.
    ///
    /// For hooks that run code in another language.
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.origin.get_or_insert_default().place = Some(place.into());
        self
    }

    /// Blames a key of the configuration, such as `schedule.steps[2]`; an empty path blames all of it.
    ///
    /// Only for errors of [`Hook::new`](crate::Hook::new): the host then shows the key's place in the manifest.
    ///
    /// ```
    /// use sconce_plugin_api::HookError;
    ///
    /// let error = HookError::new("must be less than `high`").in_config("low");
    /// assert_eq!(error.config_path(), Some("low"));
    /// ```
    pub fn in_config(mut self, path: impl Into<String>) -> Self {
        self.origin.get_or_insert_default().config_path = Some(path.into());
        self
    }

    /// The key of the configuration that is to blame, as given to [`in_config`](HookError::in_config).
    pub fn config_path(&self) -> Option<&str> {
        self.origin.as_ref()?.config_path.as_deref()
    }

    /// The location to report: that given to [`at`](HookError::at), or the one in the Rust source.
    pub(crate) fn reported_place(&self) -> String {
        let given = self.origin.as_ref().and_then(|origin| origin.place.clone());
        given.unwrap_or_else(|| self.place.to_string())
    }

    /// Prefixes the message: "context: message".
    #[cold]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The message: what failed.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Location in the hook's source at which the error was created or converted to this type.
    pub fn place(&self) -> &'static Location<'static> {
        self.place
    }
}

impl<E: StdError> From<E> for HookError {
    #[track_caller]
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        HookError {
            message,
            place: Location::caller(),
            origin: None,
        }
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.message, self.reported_place())
    }
}

/// Adds context to a failed result.
///
/// ```
/// use sconce_plugin_api::{Context, Result};
///
/// fn read() -> Result<String> {
///     std::fs::read_to_string("no/such/file").context("can't read the word list")
/// }
///
/// assert!(read().unwrap_err().message().starts_with("can't read the word list: "));
/// ```
pub trait Context<T> {
    /// Prefixes the error's message: "context: error".
    #[track_caller]
    fn context(self, context: impl fmt::Display) -> Result<T>;

    /// Like [`context`](Context::context), but builds the context only on error.
    #[track_caller]
    fn with_context<C: fmt::Display>(self, context: impl FnOnce() -> C) -> Result<T>;
}

impl<T, E: Into<HookError>> Context<T> for std::result::Result<T, E> {
    #[track_caller]
    fn context(self, context: impl fmt::Display) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => {
                let error: HookError = error.into();
                Err(error.context(context))
            }
        }
    }

    #[track_caller]
    fn with_context<C: fmt::Display>(self, context: impl FnOnce() -> C) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(error) => {
                let error: HookError = error.into();
                Err(error.context(context()))
            }
        }
    }
}

/// Returns from the function with an [`HookError`] made from a format string.
///
/// ```
/// use sconce_plugin_api::{Result, bail};
///
/// fn check(window: usize) -> Result<()> {
///     if window == 0 {
///         bail!("`window` must be at least 1, found {window}");
///     }
///     Ok(())
/// }
///
/// assert!(check(0).is_err());
/// ```
#[macro_export]
macro_rules! bail {
    ($($argument:tt)*) => {
        return ::core::result::Result::Err($crate::HookError::new(::core::format_args!($($argument)*)))
    };
}

/// The host's answer; an error has the location of the caller, in the hook's source.
#[track_caller]
#[inline]
pub(crate) fn outcome<T>(answer: std::result::Result<T, Refusal>) -> Result<T> {
    match answer {
        Ok(value) => Ok(value),
        Err(refusal) => Err(refused(&refusal)),
    }
}

#[track_caller]
#[cold]
fn refused(refusal: &Refusal) -> HookError {
    if refusal.message.is_empty() {
        let status = refusal.status.0;
        return HookError::new(format_args!("the host answered with status {status}"));
    }
    HookError::new(&refusal.message)
}
