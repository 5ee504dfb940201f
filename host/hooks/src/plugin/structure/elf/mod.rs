//! ELF: checks what `ld.so` takes for granted.
//!
//! The loader maps the segments at whatever addresses they name, follows the pointers of the dynamic segment,
//! and relocates at the addresses in the relocation tables. All of these are checked here first, within the
//! file's bytes.

#![allow(
    clippy::useless_conversion,
    reason = "addresses are as wide as the target's, conversions to `u64` may do nothing"
)]

mod dynamic;
mod hash;
mod header;
mod outside;
mod relocations;
mod sections;
mod segments;
mod symbols;
mod word;

#[cfg(target_os = "linux")]
pub(in crate::plugin) use outside::is_systems;

use super::{Needs, StructureFault};
use dynamic::Dynamic;
use segments::Segments;
use symbols::Symbols;

/// Checks an ELF file, and returns what it needs.
pub(super) fn prove(bytes: &[u8]) -> Result<Needs, StructureFault> {
    let header = header::read(bytes)?;
    let segments = Segments::read(header, bytes)?;
    sections::check_sections(header, &segments, bytes)?;
    let dynamic = Dynamic::read(&segments)?;
    if dynamic.is_executable(&segments) {
        return Err(StructureFault::Executable);
    }
    let symbols = Symbols::read(&dynamic, &segments)?;
    hash::check(&dynamic, &segments, &symbols)?;
    dynamic.check_tables(&segments)?;
    relocations::check(&dynamic, &segments, &symbols)?;
    let needed = dynamic
        .all(object::elf::DT_NEEDED)
        .map(|offset| symbols.string(offset, "a needed library's name"))
        .collect::<Result<_, _>>()?;
    let mut looks_beside = false;
    for tag in [object::elf::DT_RPATH, object::elf::DT_RUNPATH] {
        for offset in dynamic.all(tag) {
            let path = symbols.string(offset, "the path of needed libraries")?;
            looks_beside |= path.contains("$ORIGIN") || path.contains("${ORIGIN}");
        }
    }
    Ok(Needs {
        needed,
        looks_beside,
        outside: outside::places(&dynamic, &symbols)?,
    })
}
