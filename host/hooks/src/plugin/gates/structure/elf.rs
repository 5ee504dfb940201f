//! ELF: its headers, and what its dynamic table says of other libraries.

use object::NativeEndian;
use object::elf::{
    DF_1_PIE, DT_AUDIT, DT_AUXILIARY, DT_DEPAUDIT, DT_FILTER, DT_FLAGS_1, DT_NEEDED, DT_RPATH,
    DT_RUNPATH,
};
use object::read::elf::{ElfFile, FileHeader};

use super::{Needs, StructureFault, damaged, is_systems, must_fit, relocations};

/// Checks that the file header and the table of section headers lie inside the file. That table comes last, so a
/// file truncated anywhere lacks a part of it.
pub(super) fn check_length<Header>(bytes: &[u8]) -> Result<(), StructureFault>
where
    Header: FileHeader<Endian = NativeEndian>,
{
    let size = size_of::<Header>() as u64;
    must_fit(|| "the ELF header".to_owned(), 0, size, bytes)?;
    let Ok(header) = Header::parse(bytes) else {
        return Ok(()); // of another word size or byte order: refused by its architecture
    };
    let start = header.e_shoff(NativeEndian).into();
    let count = u64::from(header.e_shnum(NativeEndian));
    let size = count * u64::from(header.e_shentsize(NativeEndian));
    let part = || "the table of section headers".to_owned();
    must_fit(part, start, size, bytes)
}

/// Reads what a library needs.
pub(super) fn needs<Elf: FileHeader>(file: &ElfFile<'_, Elf>) -> Result<Needs, StructureFault> {
    let dynamic = file.elf_dynamic_table().map_err(damaged)?;
    let entries: Vec<_> = dynamic.iter().map(|entry| (entry.tag, entry.val)).collect();
    relocations::check(file, &entries)?;
    let mut needs = Needs::default();
    for entry in &dynamic {
        let text = || {
            let bytes = dynamic.string(entry).map_err(damaged)?;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        match entry.tag {
            DT_FLAGS_1 if entry.val & DF_1_PIE.0 != 0 => return Err(StructureFault::Executable),
            DT_NEEDED => {
                let name = text()?;
                // A path, not a name that is searched for.
                if name.contains('/') && !is_systems(&name) {
                    needs.outside.push(name.clone());
                }
                needs.needed.push(name);
            }
            DT_RPATH | DT_RUNPATH => {
                let path = text()?;
                needs.looks_beside |= path.contains("$ORIGIN") || path.contains("${ORIGIN}");
                let outside = path.split(':').filter(|place| !is_systems(place));
                needs.outside.extend(outside.map(str::to_owned));
            }
            DT_AUDIT | DT_DEPAUDIT | DT_FILTER | DT_AUXILIARY => needs.outside.push(text()?),
            _ => {}
        }
    }
    Ok(needs)
}
