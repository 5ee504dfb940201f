//! The ELF header, and the tables that it points to.

use object::elf::{
    ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, ET_CORE, ET_DYN, ET_EXEC, ET_REL,
};
use object::read::elf::FileHeader;
use object::{NativeEndian, ReadRef};

use super::super::{StructureFault, machine, must_fit};

#[cfg(not(target_pointer_width = "64"))]
pub(super) use object::elf::{
    FileHeader32 as RawHeader, ProgramHeader32 as RawSegment, SectionHeader32 as RawSection,
};
#[cfg(target_pointer_width = "64")]
pub(super) use object::elf::{
    FileHeader64 as RawHeader, ProgramHeader64 as RawSegment, SectionHeader64 as RawSection,
};

/// ELF header of this process's word size and byte order.
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

/// Checks that the file has this process's word size and byte order.
fn must_be_native(header: &Header) -> Result<(), StructureFault> {
    let class = header.e_ident().class;
    let width = match class {
        ELFCLASS32 => 32_u64,
        ELFCLASS64 => 64,
        other => return Err(StructureFault::damaged(format!("ELF class {}", other.0))),
    };
    if width != super::word::WORD * 8 {
        return Err(other_machine(
            format!("{} bits", super::word::WORD * 8),
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
