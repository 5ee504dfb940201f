//! The system calls that a sandbox refuses, named if that is asked for.

/// The environment variable that has the system calls that a sandbox refuses named in the hook's output.
pub const SANDBOX_LOG: &str = "SCONCE_SANDBOX_LOG";

/// Whether that is asked for.
#[cfg(target_os = "linux")]
pub(super) fn sandbox_log_is_on() -> bool {
    std::env::var_os(SANDBOX_LOG).is_some_and(|value| !value.is_empty() && value != "0")
}
