//! The host's name and version.

/// As plugins, checkpoints and reports have it.
pub(crate) const HOST_VERSION: &str = concat!("sconce ", env!("CARGO_PKG_VERSION"));
