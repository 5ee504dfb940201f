//! Name and version of the host.

/// Host name and version, as given to plugins and written to checkpoints and reports.
pub const HOST_VERSION: &str = concat!("sconce ", env!("CARGO_PKG_VERSION"));
