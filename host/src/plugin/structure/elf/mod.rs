//! ELF: what `ld.so` takes for granted.
//!
//! It maps the segments with whatever addresses they name, follows the dynamic segment's pointers
//! and relocates at the places that the relocations name. Each of these is followed here first,
//! inside the file.

#![allow(
    clippy::useless_conversion,
    reason = "addresses are as wide as the target's, conversions to `u64` may do nothing"
)]

mod dynamic;
mod hash;
mod header;
mod relocations;
mod segments;
mod symbols;

use super::StructureFault;
use dynamic::Dynamic;
use segments::Segments;
use symbols::Symbols;

/// The size of an address in this process, in bytes.
const WORD: u64 = size_of::<usize>() as u64;

/// Proves it and returns the names of the libraries that it needs.
pub(super) fn prove(bytes: &[u8]) -> Result<Vec<String>, StructureFault> {
    let header = header::read(bytes)?;
    let segments = Segments::read(header, bytes)?;
    header::check_sections(header, &segments, bytes)?;
    let dynamic = Dynamic::read(&segments)?;
    if dynamic.is_executable(&segments) {
        return Err(StructureFault::Executable);
    }
    let symbols = Symbols::read(&dynamic, &segments)?;
    hash::check(&dynamic, &segments, &symbols)?;
    dynamic.check_tables(&segments)?;
    relocations::check(&dynamic, &segments, &symbols)?;
    dynamic
        .all(object::elf::DT_NEEDED)
        .map(|offset| symbols.string(offset, "a needed library's name"))
        .collect()
}
