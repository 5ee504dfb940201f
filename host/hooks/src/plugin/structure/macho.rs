//! Mach-O, the format of macOS: checks what the loader does not.

use object::macho::{MH_BUNDLE, MH_CORE, MH_DYLIB, MH_EXECUTE, MH_OBJECT, MachHeader64};
use object::read::macho::{LoadCommandVariant, MachHeader};
use object::{Endianness, ReadRef};

use super::{StructureFault, machine, must_fit};

/// Checks a Mach-O file, and returns the names of the libraries that it needs.
pub(super) fn prove(bytes: &[u8]) -> Result<Vec<String>, StructureFault> {
    let size = size_of::<MachHeader64<Endianness>>() as u64;
    must_fit(|| "the Mach-O header".to_owned(), 0, size, bytes)?;
    let header = MachHeader64::<Endianness>::parse(bytes, 0).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    machine::must_be_host_macho(header.cputype(endian).0)?;
    match header.filetype(endian) {
        MH_DYLIB | MH_BUNDLE => {}
        MH_EXECUTE => return Err(StructureFault::Executable),
        MH_OBJECT => return Err(StructureFault::ObjectFile),
        MH_CORE => return Err(StructureFault::CoreDump),
        other => return Err(StructureFault::damaged(format!("file type {}", other.0))),
    }
    must_fit(
        || "the load commands".to_owned(),
        size,
        u64::from(header.sizeofcmds(endian)),
        bytes,
    )?;
    commands(header, endian, bytes)
}

/// Checks that every segment and the symbol tables lie inside the file.
fn commands(
    header: &MachHeader64<Endianness>,
    endian: Endianness,
    bytes: &[u8],
) -> Result<Vec<String>, StructureFault> {
    let mut needed = Vec::new();
    let mut commands = header.load_commands(endian, bytes, 0).map_err(damaged)?;
    while let Some(command) = commands.next().map_err(damaged)? {
        match command.variant().map_err(damaged)? {
            LoadCommandVariant::Segment64(segment, _) => {
                let (offset, size) = (segment.fileoff.get(endian), segment.filesize.get(endian));
                must_fit(|| segment_name(&segment.segname), offset, size, bytes)?;
            }
            LoadCommandVariant::Symtab(table) => {
                table
                    .symbols::<MachHeader64<Endianness>, _>(endian, bytes)
                    .map_err(damaged)?;
                let (offset, size) = (table.stroff.get(endian), table.strsize.get(endian));
                bytes
                    .read_bytes_at(offset.into(), size.into())
                    .map_err(|()| StructureFault::damaged("the string table lies outside"))?;
            }
            LoadCommandVariant::Dylib(library) => {
                let name = command
                    .string(endian, library.dylib.name)
                    .map_err(damaged)?;
                needed.push(String::from_utf8_lossy(name).into_owned());
            }
            _ => {}
        }
    }
    Ok(needed)
}

fn segment_name(name: &[u8; 16]) -> String {
    let end = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    let name = String::from_utf8_lossy(name.get(..end).unwrap_or_default());
    format!("segment `{name}`")
}

fn damaged(error: object::Error) -> StructureFault {
    StructureFault::damaged(error.to_string())
}
