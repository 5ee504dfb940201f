//! Relocations of ELF: the addresses that the loader writes to before any code of the library runs.
//!
//! What a damaged one overwrites depends on where the system has put the library, so that a trial may not notice what the run
//! would suffer: each must lie in the library's own memory.

use object::elf::{
    DT_JMPREL, DT_PLTREL, DT_PLTRELSZ, DT_REL, DT_RELA, DT_RELASZ, DT_RELR, DT_RELRSZ, DT_RELSZ,
    DT_TEXTREL, DynamicTag, PF_W, PT_LOAD,
};
use object::pod::slice_from_all_bytes;
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, Rel, Rela};

use super::StructureFault;

/// Checks that every relocation lies in memory of the library that may be written to.
pub(super) fn check<Elf: FileHeader>(
    file: &ElfFile<'_, Elf>,
    entries: &[(DynamicTag, u64)],
) -> Result<(), StructureFault> {
    let value = |tag: DynamicTag| {
        entries
            .iter()
            .find(|(known, _)| *known == tag)
            .map(|(_, value)| *value)
    };
    let writes_to_code = value(DT_TEXTREL).is_some();
    let endian = file.endian();
    let memory = Memory::of(file, writes_to_code);
    let table = |start: DynamicTag, size: DynamicTag| match (value(start), value(size)) {
        (Some(start), Some(size)) => memory.bytes(start, size),
        _ => Ok(&[][..]),
    };
    let calls_have_addends = value(DT_PLTREL) == Some(DT_RELA.0.cast_unsigned());
    let calls = table(DT_JMPREL, DT_PLTRELSZ)?;
    let with_addends = table(DT_RELA, DT_RELASZ)?;
    let without = table(DT_REL, DT_RELSZ)?;
    let (calls_with, calls_without) = if calls_have_addends {
        (calls, &[][..])
    } else {
        (&[][..], calls)
    };
    for bytes in [with_addends, calls_with] {
        for relocation in slice_from_all_bytes::<Elf::Rela>(bytes).map_err(|()| uneven())? {
            memory.must_hold(relocation.r_offset(endian).into())?;
        }
    }
    for bytes in [without, calls_without] {
        for relocation in slice_from_all_bytes::<Elf::Rel>(bytes).map_err(|()| uneven())? {
            memory.must_hold(relocation.r_offset(endian).into())?;
        }
    }
    memory.check_packed(table(DT_RELR, DT_RELRSZ)?)
}

/// The parts of the file that the loader maps.
struct Memory<'a, 'data, Elf: FileHeader> {
    file: &'a ElfFile<'data, Elf>,
    endian: Elf::Endian,
    /// Address and size of each part that may be written to: looked up for every relocation.
    writable: Vec<(u64, u64)>,
}

impl<'a, 'data, Elf: FileHeader> Memory<'a, 'data, Elf> {
    fn of(file: &'a ElfFile<'data, Elf>, writes_to_code: bool) -> Self {
        let mut memory = Memory {
            file,
            endian: file.endian(),
            writable: Vec::new(),
        };
        let endian = memory.endian;
        memory.writable = memory
            .loaded()
            .filter(|header| writes_to_code || (header.p_flags(endian) & PF_W).0 != 0)
            .map(|header| (header.p_vaddr(endian).into(), header.p_memsz(endian).into()))
            .collect();
        memory
    }

    fn loaded(&self) -> impl Iterator<Item = &'data Elf::ProgramHeader> {
        let headers = self.file.elf_program_headers().iter();
        headers.filter(|header| header.p_type(self.endian) == PT_LOAD)
    }

    /// Bytes of the file that are mapped at an address.
    fn bytes(&self, address: u64, size: u64) -> Result<&'data [u8], StructureFault> {
        let mut found = self.loaded().filter_map(|header| {
            let start = address.checked_sub(header.p_vaddr(self.endian).into())?;
            let bytes = header.data(self.endian, self.file.data()).ok()?;
            bytes
                .get(usize::try_from(start).ok()?..)?
                .get(..usize::try_from(size).ok()?)
        });
        found.next().ok_or_else(|| {
            StructureFault::Damaged(format!(
                "its relocations at {address:#x} are not in the file"
            ))
        })
    }

    /// Checks an address that a word is written to.
    fn must_hold(&self, address: u64) -> Result<(), StructureFault> {
        let word = size_of::<Elf::Word>() as u64;
        let is_held = self.writable.iter().any(|(start, size)| {
            let offset = address.checked_sub(*start);
            let end = offset.and_then(|offset| offset.checked_add(word));
            end.is_some_and(|end| end <= *size)
        });
        if is_held {
            return Ok(());
        }
        let what =
            format!("a relocation writes to {address:#x}, which is not the library's to write to");
        Err(StructureFault::Damaged(what))
    }

    /// Checks packed relocations: an even word is an address, an odd one a bitmap of the words that follow it.
    fn check_packed(&self, bytes: &[u8]) -> Result<(), StructureFault> {
        let word = size_of::<Elf::Word>();
        let mut next = 0_u64;
        for chunk in bytes.chunks(word) {
            let mut full = [0; 8];
            let place = if cfg!(target_endian = "little") {
                full.get_mut(..chunk.len())
            } else {
                full.get_mut(8 - chunk.len()..)
            };
            if let Some(place) = place {
                place.copy_from_slice(chunk);
            }
            let value = u64::from_ne_bytes(full);
            let step = word as u64;
            if value & 1 == 0 {
                self.must_hold(value)?;
                next = value.wrapping_add(step);
                continue;
            }
            let count = 8 * step - 1;
            for bit in (0..count).filter(|bit| value >> (bit + 1) & 1 == 1) {
                self.must_hold(next.wrapping_add(bit * step))?;
            }
            next = next.wrapping_add(count * step);
        }
        Ok(())
    }
}

fn uneven() -> StructureFault {
    StructureFault::Damaged("its relocations do not fill their table".to_owned())
}
