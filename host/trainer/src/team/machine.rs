//! The name of this machine, for messages.

/// The name under which this machine is known in its network.
#[cfg(unix)]
pub fn name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

/// The name under which this machine is known in its network.
#[cfg(not(unix))]
pub(crate) fn name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this machine".to_owned())
}
