//! The section headers.

use object::NativeEndian;
use object::elf::{SHF_ALLOC, SHT_NOBITS, SHT_NULL};
use object::read::elf::{FileHeader, SectionHeader};

use super::super::{StructureFault, must_fit};
use super::header::{Header, RawSection};
use super::segments::Segments;

/// Checks that section headers and sections lie inside the file, and loaded ones inside segments.
///
/// `ld.so` does not read them, but they come last, so a file truncated anywhere lacks some of them. They also
/// provide a second check of what the segments must load.
pub(super) fn check_sections(
    header: &Header,
    segments: &Segments<'_>,
    bytes: &[u8],
) -> Result<(), StructureFault> {
    let offset: u64 = header.e_shoff(NativeEndian).into();
    if offset == 0 {
        return Ok(());
    }
    let part = || "the table of section headers".to_owned();
    let entry = size_of::<RawSection<NativeEndian>>() as u64;
    must_fit(part, offset, entry, bytes)?;
    if u64::from(header.e_shentsize(NativeEndian)) != entry {
        return Err(StructureFault::damaged("section headers of another size"));
    }
    let count = header.shnum(NativeEndian, bytes).map_err(damaged)?;
    must_fit(part, offset, entry * u64::from(count), bytes)?;
    let sections = header
        .section_headers(NativeEndian, bytes)
        .map_err(damaged)?;
    for (index, section) in sections.iter().enumerate() {
        let kind = section.sh_type(NativeEndian);
        if kind != SHT_NULL && kind != SHT_NOBITS {
            let (start, size) = (
                section.sh_offset(NativeEndian),
                section.sh_size(NativeEndian),
            );
            must_fit(
                || format!("section {index}"),
                start.into(),
                size.into(),
                bytes,
            )?;
            let is_loaded = section.sh_flags(NativeEndian).0 & SHF_ALLOC.0 != 0;
            let address = section.sh_addr(NativeEndian).into();
            if is_loaded && segments.at(address, size.into(), "").is_err() {
                let what = format!("section {index} lies outside of what is loaded");
                return Err(StructureFault::Damaged(what));
            }
        }
    }
    Ok(())
}

fn damaged(error: object::Error) -> StructureFault {
    StructureFault::damaged(error.to_string())
}
