//! What the headers of a Parquet file say, compared with what is there, before anything is allocated by it.
//!
//! The crate that decodes pages trusts their sizes. So the headers of all pages that are to be read are looked at first.

use parquet::basic::{Compression, Type};
use parquet::file::metadata::ColumnChunkMetaData;

use super::thrift::Thrift;
use crate::files::watched_file::WatchedFile;

/// Most bytes of the description at the end of a file.
const LARGEST_FOOTER: u64 = 1 << 28;

/// Deepest nesting of columns.
const DEEPEST: usize = 32;

/// Most bytes of a page's header; it may have the least and the greatest of its values.
const LARGEST_HEADER: u64 = 1 << 20;

/// Bytes in which most headers are.
const USUAL_HEADER: u64 = 1 << 10;

/// Encodings that are read: plain, by dictionaries, and runs of truth values. Others have sizes of their own in their pages.
const ENCODINGS: [i64; 4] = [0, 2, 3, 8];

/// What a page's header says that is none.
const DAMAGED_PAGE: &str = "the header of a page is damaged";

/// Most bytes of a page.
const LARGEST_PAGE: i64 = 1 << 28;

/// How many times its compressed size a page may be, beyond a mebibyte.
const MOST_EXPANSION: i64 = 1_000;

/// Most values of a page: missing ones and repeated ones take no room.
const MOST_VALUES: i64 = 1 << 24;

/// First and last bytes of a file.
pub(in crate::tokens::rows) const MAGIC: [u8; 4] = *b"PAR1";

/// The header of a page.
#[derive(Debug, Default)]
pub(super) struct PageHeader {
    kind: i64,
    uncompressed: i64,
    compressed: i64,
    /// Number of values and encoding: of data, of a dictionary, of data in the second version.
    contents: [Option<(i64, i64)>; 3],
}

/// Compares the description at the end of a file with it.
pub(super) fn check_footer(file: &WatchedFile) -> Result<(), String> {
    let length = file.length();
    let mut end = [0; 8];
    let start = length.checked_sub(12).ok_or("it is too short")? + 4;
    read(file, start, &mut end)?;
    let [a, b, c, d, magic @ ..] = end;
    let size = u64::from(u32::from_le_bytes([a, b, c, d]));
    if magic != MAGIC {
        return Err("it does not end as such a file: truncated, or encrypted?".to_owned());
    }
    if size > start || size > LARGEST_FOOTER {
        return Err(format!("its description has {size} bytes"));
    }
    let mut footer = vec![0; size as usize];
    read(file, start - size, &mut footer)?;
    check_depth(&footer)
}

/// The tree of columns is read by a function that calls itself.
fn check_depth(footer: &[u8]) -> Result<(), String> {
    Thrift::new(footer).structure(&mut |thrift, number, kind| {
        if (number, kind) != (2, 9) {
            return Ok(false);
        }
        // For each group that is open, the number of its columns that are to come.
        let mut open: Vec<i64> = Vec::new();
        for _ in 0..thrift.structures()? {
            let mut columns = 0;
            thrift.structure(&mut |thrift, number, kind| {
                let is_count = number == 5;
                if is_count {
                    columns = thrift.number(kind)?;
                }
                Ok(is_count)
            })?;
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if columns > 0 {
                open.push(columns);
            }
            while open.last().is_some_and(|left| *left <= 0) {
                open.pop();
            }
            if open.len() > DEEPEST {
                return Err(format!("its columns are more than {DEEPEST} levels deep"));
            }
        }
        Ok(true)
    })
}

/// Compares the headers of a column's pages with the file, and with the number of rows.
pub(super) fn check_column(
    file: &WatchedFile,
    column: &ColumnChunkMetaData,
    rows: u64,
) -> Result<(), String> {
    let start = column
        .dictionary_page_offset()
        .unwrap_or(column.data_page_offset());
    let (start, size) = (
        u64::try_from(start),
        u64::try_from(column.compressed_size()),
    );
    let (Ok(mut at), Ok(size)) = (start, size) else {
        return Err("a column begins before the file, or ends before it begins".to_owned());
    };
    let end = at.checked_add(size).filter(|end| *end <= file.length());
    let end = end.ok_or("a column ends behind the file")?;
    let is_plain = match column.compression() {
        Compression::UNCOMPRESSED => true,
        Compression::SNAPPY | Compression::ZSTD(_) => false,
        other => {
            return Err(format!(
                "it is compressed by {other}, not by snappy, zstd or nothing"
            ));
        }
    };
    let mut values: u64 = 0;
    while at < end {
        let (header, own) = PageHeader::at(file, at, end)?;
        values += header.check(end - at - own, is_plain, column.column_type())?;
        at += own + header.compressed as u64;
    }
    let is_flat = column.column_descr().max_rep_level() == 0;
    if u64::try_from(column.num_values()) != Ok(values)
        || values < rows
        || is_flat && values != rows
    {
        return Err(format!("a column has {values} values, for {rows} rows"));
    }
    Ok(())
}

impl PageHeader {
    /// Reads the header at a place before `end`, and its length.
    fn at(file: &WatchedFile, at: u64, end: u64) -> Result<(PageHeader, u64), String> {
        let mut wanted = USUAL_HEADER;
        loop {
            let mut bytes = vec![0; (end - at).min(wanted) as usize];
            read(file, at, &mut bytes)?;
            let mut thrift = Thrift::new(&bytes);
            match PageHeader::read(&mut thrift) {
                Ok(header) => return Ok((header, (bytes.len() - thrift.left()) as u64)),
                Err(problem) if wanted >= LARGEST_HEADER.min(end - at) => return Err(problem),
                Err(_) => wanted = LARGEST_HEADER,
            }
        }
    }

    pub(super) fn read(thrift: &mut Thrift<'_>) -> Result<PageHeader, String> {
        let mut header = PageHeader::default();
        thrift.structure(&mut |thrift, number, kind| {
            match number {
                1 => header.kind = thrift.number(kind)?,
                2 => header.uncompressed = thrift.number(kind)?,
                3 => header.compressed = thrift.number(kind)?,
                5 => header.contents[0] = Some(contents(thrift, 2)?),
                7 => header.contents[1] = Some(contents(thrift, 2)?),
                8 => header.contents[2] = Some(contents(thrift, 4)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(header)
    }

    /// Compares what it says with the `left` bytes of its column; returns the number of rows' values, none of a dictionary.
    pub(super) fn check(&self, left: u64, is_plain: bool, kind: Type) -> Result<u64, String> {
        let PageHeader {
            uncompressed,
            compressed,
            ..
        } = *self;
        let is_there = u64::try_from(compressed).is_ok_and(|size| size <= left);
        let most = compressed
            .saturating_mul(MOST_EXPANSION)
            .saturating_add(1 << 20);
        let is_likely = (0..=most.min(LARGEST_PAGE)).contains(&uncompressed);
        if !is_there || !is_likely || is_plain && compressed != uncompressed {
            return Err(format!(
                "a page has {compressed} bytes of the {left} that are left, and {uncompressed} uncompressed"
            ));
        }
        let (is_dictionary, contents) = match (self.kind, self.contents) {
            (0, [Some(contents), None, None]) | (3, [None, None, Some(contents)]) => {
                (false, contents)
            }
            (2, [None, Some(contents), None]) => (true, contents),
            _ => return Err(DAMAGED_PAGE.to_owned()),
        };
        let (values, encoding) = contents;
        // A value of a dictionary has room of its own: a text at least that of its length.
        let least = if kind == Type::BYTE_ARRAY { 4 } else { 1 };
        let most = if is_dictionary {
            uncompressed / least
        } else {
            MOST_VALUES
        };
        if !(0..=most).contains(&values) {
            return Err(format!(
                "a page of {uncompressed} bytes has {values} values"
            ));
        }
        if !ENCODINGS.contains(&encoding) {
            return Err(format!(
                "a page has the encoding {encoding}, which is not read: write it plain or by dictionaries"
            ));
        }
        Ok(if is_dictionary { 0 } else { values as u64 })
    }
}

/// The number of values of a page, and their encoding, which is the field of this number.
fn contents(thrift: &mut Thrift<'_>, encoding: i64) -> Result<(i64, i64), String> {
    let mut found = (-1, -1);
    thrift.structure(&mut |thrift, number, kind| {
        match number {
            1 => found.0 = thrift.number(kind)?,
            number if number == encoding => found.1 = thrift.number(kind)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(found)
}

fn read(file: &WatchedFile, start: u64, bytes: &mut [u8]) -> Result<(), String> {
    file.read_at(start, bytes)
        .map_err(|problem| problem.to_string())
}
