//! The hash tables for symbol lookup. The loader searches every library for every symbol, so a wrong number
//! here is soon followed.

use object::elf::{DT_GNU_HASH, DT_HASH};

use super::super::StructureFault;
use super::dynamic::{Dynamic, number};
use super::segments::Segments;
use super::symbols::Symbols;
use super::word::WORD;

/// Checks the tables that are present; the loader requires none, but finds nothing without one.
pub(super) fn check(
    dynamic: &Dynamic,
    segments: &Segments<'_>,
    symbols: &Symbols<'_>,
) -> Result<(), StructureFault> {
    if let Some(address) = dynamic.get(DT_GNU_HASH) {
        let table = segments.rest_at(address);
        return check_gnu(table.unwrap_or_default(), symbols);
    }
    match dynamic.get(DT_HASH) {
        Some(address) => {
            let table = segments.rest_at(address);
            check_classic(table.unwrap_or_default(), symbols)
        }
        None => Err(StructureFault::damaged("has no table of exported symbols")),
    }
}

/// Checks the GNU table: four numbers, a Bloom filter of words, buckets, chains.
fn check_gnu(table: &[u8], symbols: &Symbols<'_>) -> Result<(), StructureFault> {
    let [buckets, first, filter_words] =
        [numbers(table, 0)?, numbers(table, 1)?, numbers(table, 2)?];
    if !filter_words.is_power_of_two() {
        return Err(outside());
    }
    let buckets_start = 4 + u64::from(filter_words) * (WORD / 4);
    let chains_start = buckets_start + u64::from(buckets);
    let mut last = 0;
    for index in 0..u64::from(buckets) {
        let bucket = numbers(table, buckets_start + index)?;
        if bucket != 0 && bucket < first {
            return Err(outside());
        }
        last = last.max(bucket);
    }
    if last == 0 {
        return Ok(());
    }
    // The chain of the last bucket ends after all others.
    let mut end = u64::from(last);
    while numbers(table, chains_start + (end - u64::from(first)))? & 1 == 0 {
        end += 1;
    }
    (u64::from(first)..=end).try_for_each(|symbol| symbols.check(symbol))
}

/// Checks the classic table: two counts, buckets, chains as long as the symbol table.
fn check_classic(table: &[u8], symbols: &Symbols<'_>) -> Result<(), StructureFault> {
    let (buckets, chains) = (u64::from(numbers(table, 0)?), u64::from(numbers(table, 1)?));
    if chains > 0 {
        numbers(table, 2 + buckets + chains - 1)?;
    }
    for index in 0..buckets {
        let mut symbol = u64::from(numbers(table, 2 + index)?);
        let mut steps = 0;
        while symbol != 0 {
            if symbol >= chains || steps > chains {
                return Err(outside());
            }
            symbol = u64::from(numbers(table, 2 + buckets + symbol)?);
            steps += 1;
        }
    }
    (0..chains).try_for_each(|symbol| symbols.check(symbol))
}

/// The number at this index of the table.
fn numbers(table: &[u8], index: u64) -> Result<u32, StructureFault> {
    let start = usize::try_from(index * 4).map_err(|_| outside())?;
    let bytes = table.get(start..).and_then(|rest| rest.get(..4));
    bytes.map(number).ok_or_else(outside)
}

fn outside() -> StructureFault {
    StructureFault::damaged("the table of exported symbols is inconsistent")
}
