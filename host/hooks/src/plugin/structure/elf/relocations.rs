//! Relocations: the addresses that the loader writes to before any code runs.

use object::elf::{
    DT_JMPREL, DT_PLTREL, DT_PLTRELSZ, DT_REL, DT_RELA, DT_RELACOUNT, DT_RELAENT, DT_RELASZ,
    DT_RELENT, DT_RELR, DT_RELRENT, DT_RELRSZ, DT_RELSZ, DT_TEXTREL,
};

use super::super::StructureFault;
use super::dynamic::{Dynamic, word};
use super::segments::Segments;
use super::symbols::Symbols;
use super::word::WORD;

/// Whether this architecture's relocations contain their addends.
const WITH_ADDENDS: bool = !cfg!(any(target_arch = "x86", target_arch = "arm"));

/// Size of a relocation, in bytes.
const SIZE: u64 = if WITH_ADDENDS { 3 * WORD } else { 2 * WORD };

/// The relocation type whose addend is a function to call, if known; 0 means "none".
const INDIRECT: u64 = if cfg!(target_arch = "x86_64") {
    37
} else if cfg!(target_arch = "aarch64") {
    1032
} else {
    0
};

/// The relocation type that only adds the library's load address, if known; 0 means "none".
const RELATIVE: u64 = if cfg!(target_arch = "x86_64") {
    8
} else if cfg!(target_arch = "aarch64") {
    1027
} else {
    0
};

/// Checks the address and the symbol of every relocation.
pub(super) fn check(
    dynamic: &Dynamic,
    segments: &Segments<'_>,
    symbols: &Symbols<'_>,
) -> Result<(), StructureFault> {
    let (table, size, entry) = if WITH_ADDENDS {
        (DT_RELA, DT_RELASZ, DT_RELAENT)
    } else {
        (DT_REL, DT_RELSZ, DT_RELENT)
    };
    dynamic.must_be(entry, SIZE, "a relocation's size")?;
    dynamic.must_be(
        DT_PLTREL,
        table.0.cast_unsigned(),
        "the kind of relocations",
    )?;
    dynamic.must_be(DT_RELRENT, WORD, "a packed relocation's size")?;
    let writable_code = dynamic.get(DT_TEXTREL).is_some();
    let place = WritableMemory {
        segments,
        writable_code,
    };
    for (table, size) in [(table, size), (DT_JMPREL, DT_PLTRELSZ)] {
        let Some(address) = dynamic.get(table) else {
            continue;
        };
        let size = dynamic.required(size, "size of the relocations")?;
        let bytes = segments.at(address, size, "the table of relocations")?;
        for relocation in bytes.chunks_exact(SIZE as usize) {
            check_one(relocation, place, symbols)?;
        }
        if table == DT_RELA {
            check_first(bytes, dynamic.get(DT_RELACOUNT).unwrap_or(0))?;
        }
    }
    let Some(address) = dynamic.get(DT_RELR) else {
        return Ok(());
    };
    let size = dynamic.required(DT_RELRSZ, "size of the packed relocations")?;
    check_packed(segments.at(address, size, "the packed relocations")?, place)
}

/// Checks that the first `count` relocations are relative ones, as the loader asserts.
fn check_first(bytes: &[u8], count: u64) -> Result<(), StructureFault> {
    if RELATIVE == 0 {
        return Ok(());
    }
    let relocations = bytes.chunks_exact(SIZE as usize);
    let wrong = |relocation: &[u8]| kind(relocation) != RELATIVE;
    let too_many = usize::try_from(count).map_or(true, |count| count > relocations.len());
    if too_many || relocations.take(count as usize).any(wrong) {
        return Err(StructureFault::damaged("a relocation has the wrong type"));
    }
    Ok(())
}

/// The type of a relocation.
fn kind(relocation: &[u8]) -> u64 {
    let mut words = relocation.chunks_exact(WORD as usize).map(word);
    let info = words.nth(1).unwrap_or(0);
    if WORD == 8 {
        info & 0xffff_ffff
    } else {
        info & 0xff
    }
}

/// The memory that relocations may write to.
#[derive(Clone, Copy)]
struct WritableMemory<'a> {
    segments: &'a Segments<'a>,
    writable_code: bool,
}

impl WritableMemory<'_> {
    fn check(self, address: u64) -> Result<(), StructureFault> {
        // The narrowest relocations write four bytes.
        let sound = if self.writable_code {
            self.segments.in_memory(address, 4)
        } else {
            self.segments.is_writable(address, 4)
        };
        if sound {
            return Ok(());
        }
        Err(StructureFault::damaged(format!(
            "a relocation at {address:#x} is not in writable memory"
        )))
    }
}

fn check_one(
    relocation: &[u8],
    place: WritableMemory<'_>,
    symbols: &Symbols<'_>,
) -> Result<(), StructureFault> {
    let mut words = relocation.chunks_exact(WORD as usize).map(word);
    let (offset, info) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    let symbol = info >> if WORD == 8 { 32 } else { 8 };
    let kind = kind(relocation);
    if kind == 0 {
        return Ok(());
    }
    place.check(offset)?;
    let addend = words.next().unwrap_or(0);
    if INDIRECT != 0 && kind == INDIRECT && !place.segments.is_code(addend) {
        return Err(StructureFault::damaged(
            "a relocation calls what is not a code",
        ));
    }
    symbols.check(symbol)
}

/// Checks packed relocations. An even word is an address, an odd one a bitmap of the words that follow the
/// last address.
fn check_packed(bytes: &[u8], place: WritableMemory<'_>) -> Result<(), StructureFault> {
    let mut next: u64 = 0;
    for entry in bytes.chunks_exact(WORD as usize).map(word) {
        if entry & 1 == 0 {
            place.check(entry)?;
            next = entry.saturating_add(WORD);
            continue;
        }
        for bit in 1..WORD * 8 {
            if entry >> bit & 1 == 1 {
                place.check(next.saturating_add((bit - 1) * WORD))?;
            }
        }
        next = next.saturating_add((WORD * 8 - 1) * WORD);
    }
    Ok(())
}
