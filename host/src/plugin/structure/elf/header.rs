//! The ELF header and the tables that it points to.

use object::elf::{
    ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, ET_CORE, ET_DYN, ET_EXEC, ET_REL, SHF_ALLOC,
    SHT_NOBITS, SHT_NULL,
};
use object::read::elf::{FileHeader, SectionHeader};
use object::{NativeEndian, ReadRef};

use super::super::{StructureFault, machine, must_fit};
use super::segments::Segments;

#[cfg(not(target_pointer_width = "64"))]
pub(super) use object::elf::{
    FileHeader32 as RawHeader, ProgramHeader32 as RawSegment, SectionHeader32 as RawSection,
};
#[cfg(target_pointer_width = "64")]
pub(super) use object::elf::{
    FileHeader64 as RawHeader, ProgramHeader64 as RawSegment, SectionHeader64 as RawSection,
};

/// The header of a library of this process's width and byte order.
pub(super) type Header = RawHeader<NativeEndian>;

/// Reads the header of a shared library for this machine.
pub(super) fn read(bytes: &[u8]) -> Result<&Header, StructureFault> {
    let size = size_of::<Header>() as u64;
    must_fit(|| "the ELF header".to_owned(), 0, size, bytes)?;
    let header: &Header = bytes
        .read_at(0)
        .map_err(|()| StructureFault::damaged("no ELF header"))?;
    must_be_native(header)?;
    machine::must_be_host_elf(header.e_machine(NativeEndian).0)?;
    let kind = header.e_type(NativeEndian);
    match kind {
        ET_DYN => Ok(header),
        ET_EXEC => Err(StructureFault::Executable),
        ET_REL => Err(StructureFault::ObjectFile),
        ET_CORE => Err(StructureFault::CoreDump),
        other => Err(StructureFault::damaged(format!("file type {}", other.0))),
    }
}

/// That the file has this process's width and byte order.
fn must_be_native(header: &Header) -> Result<(), StructureFault> {
    let class = header.e_ident().class;
    let width = match class {
        ELFCLASS32 => 32_u64,
        ELFCLASS64 => 64,
        other => return Err(StructureFault::damaged(format!("ELF class {}", other.0))),
    };
    if width != super::WORD * 8 {
        return Err(other_machine(
            format!("{} bits", super::WORD * 8),
            format!("{width} bits"),
        ));
    }
    let order = header.e_ident().data;
    let is_little = match order {
        ELFDATA2LSB => true,
        ELFDATA2MSB => false,
        other => return Err(StructureFault::damaged(format!("byte order {}", other.0))),
    };
    if is_little != cfg!(target_endian = "little") {
        let name = |is_little| {
            if is_little {
                "little-endian"
            } else {
                "big-endian"
            }
        };
        return Err(other_machine(
            name(!is_little).to_owned(),
            name(is_little).to_owned(),
        ));
    }
    Ok(())
}

fn other_machine(host: String, plugin: String) -> StructureFault {
    StructureFault::OtherMachine { host, plugin }
}

/// That the section headers and all sections lie inside the file, and the loaded ones inside
/// segments.
///
/// `ld.so` does not read them, but they stand last: a file that was cut anywhere lacks some. And
/// they are a second opinion on what the segments must load.
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
