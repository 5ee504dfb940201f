//! PE, the format of Windows: the checks that are cheap.

use object::LittleEndian as LE;
use object::pe::{IMAGE_FILE_DLL, ImageDosHeader, ImageNtHeaders64};
use object::read::pe::ImageNtHeaders;

use super::{StructureFault, machine, must_fit};

/// Checks a PE file, and returns the names of the libraries that it needs.
pub(super) fn prove(bytes: &[u8]) -> Result<Vec<String>, StructureFault> {
    let dos = ImageDosHeader::parse(bytes).map_err(damaged)?;
    let mut offset = u64::from(dos.nt_headers_offset());
    let coff = offset.saturating_add(24);
    must_fit(|| "the PE header".to_owned(), 0, coff, bytes)?;
    let (headers, directories) = ImageNtHeaders64::parse(bytes, &mut offset).map_err(damaged)?;
    let file_header = headers.file_header();
    machine::must_be_host_pe(file_header.machine.get(LE).0)?;
    if file_header.characteristics.get(LE).0 & IMAGE_FILE_DLL.0 == 0 {
        return Err(StructureFault::Executable);
    }
    let sections = headers.sections(bytes, offset).map_err(damaged)?;
    for (index, section) in sections.iter().enumerate() {
        let (start, size) = section.pe_file_range();
        let part = || format!("section {}", index + 1);
        must_fit(part, start.into(), size.into(), bytes)?;
    }
    let Some(imports) = directories
        .import_table(bytes, &sections)
        .map_err(damaged)?
    else {
        return Ok(Vec::new());
    };
    let mut needed = Vec::new();
    let mut descriptors = imports.descriptors().map_err(damaged)?;
    while let Some(import) = descriptors.next().map_err(damaged)? {
        let name = imports.name(import.name.get(LE)).map_err(damaged)?;
        needed.push(String::from_utf8_lossy(name).into_owned());
    }
    Ok(needed)
}

fn damaged(error: object::Error) -> StructureFault {
    StructureFault::damaged(error.to_string())
}
