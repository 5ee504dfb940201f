//! Word size of ELF files for this host.

/// Size of an address in this process, in bytes.
pub(super) const WORD: u64 = size_of::<usize>() as u64;
