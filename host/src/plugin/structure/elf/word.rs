//! The size of addresses in this host's format.

/// The size of an address in this process, in bytes.
pub(super) const WORD: u64 = size_of::<usize>() as u64;
