//! The dynamic symbols and their names.

use object::elf::{DT_STRSZ, DT_STRTAB, DT_SYMENT, DT_SYMTAB};

use super::super::StructureFault;
use super::dynamic::{Dynamic, number};
use super::segments::Segments;
use super::word::WORD;

/// Size of a symbol, in bytes.
const SYMBOL: u64 = if WORD == 8 { 24 } else { 16 };

/// The symbol table, whose length is not recorded anywhere, and the string table.
pub(super) struct Symbols<'data> {
    table: &'data [u8],
    strings: &'data [u8],
}

impl<'data> Symbols<'data> {
    /// Locates both tables.
    pub(super) fn read(
        dynamic: &Dynamic,
        segments: &Segments<'data>,
    ) -> Result<Self, StructureFault> {
        let address = dynamic.required(DT_STRTAB, "string table")?;
        let size = dynamic.required(DT_STRSZ, "string table's size")?;
        let strings = segments.at(address, size, "the string table")?;
        if strings.last() != Some(&0) {
            return Err(StructureFault::damaged("the string table has no end"));
        }
        dynamic.must_be(DT_SYMENT, SYMBOL, "a symbol's size")?;
        let address = dynamic.required(DT_SYMTAB, "symbol table")?;
        let table = segments
            .rest_at(address)
            .ok_or_else(|| StructureFault::damaged("the symbol table lies outside"))?;
        Ok(Symbols { table, strings })
    }

    /// Checks that this symbol and its name are inside their tables.
    pub(super) fn check(&self, index: u64) -> Result<(), StructureFault> {
        let entry = index
            .checked_mul(SYMBOL)
            .and_then(|start| usize::try_from(start).ok())
            .and_then(|start| self.table.get(start..)?.get(..SYMBOL as usize));
        let Some(entry) = entry else {
            return Err(StructureFault::damaged(format!(
                "there is no symbol {index}"
            )));
        };
        let name = number(entry) as usize;
        if name >= self.strings.len() {
            return Err(StructureFault::damaged(format!(
                "symbol {index} has no name"
            )));
        }
        Ok(())
    }

    /// The string at this offset.
    pub(super) fn string(&self, offset: u64, name: &str) -> Result<String, StructureFault> {
        usize::try_from(offset)
            .ok()
            .and_then(|start| self.strings.get(start..))
            .and_then(|rest| rest.split(|&byte| byte == 0).next())
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .ok_or_else(|| StructureFault::damaged(format!("{name} lies outside")))
    }
}
