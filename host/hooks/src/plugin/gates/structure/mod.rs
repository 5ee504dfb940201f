//! The structure gate: checks from a file's bytes that it is a complete shared library for this machine.
//!
//! The system's loaders trust their input: `dlopen` of a truncated library raises SIGBUS, and their messages about
//! other files are hard to understand. What is read here, by `object`, are the headers, the extents of segments and
//! sections, the addresses that the loader writes to, and the names of needed libraries. Damage that lies deeper, as in symbols
//! or code, is left to the [trial](crate::plugin::trial).

mod detect;
mod elf;
mod fault;
mod format;
mod machine;
mod relocations;
mod system_path;
#[cfg(test)]
mod tests;

#[cfg(not(target_pointer_width = "64"))]
use object::elf::FileHeader32 as Header;
#[cfg(target_pointer_width = "64")]
use object::elf::FileHeader64 as Header;
use object::{File, Object, ObjectKind, ObjectSection, ObjectSegment};

pub use fault::StructureFault;
pub use format::Format;
pub(in crate::plugin) use system_path::is_systems;

/// A library's dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::plugin) struct Needs {
    /// Names of the libraries that it needs, in its own order.
    pub needed: Vec<String>,
    /// Whether it looks for them relative to its own file (`$ORIGIN`).
    pub looks_beside: bool,
    /// Names and places by which others are loaded from outside of the system's directories.
    pub outside: Vec<String>,
}

/// Checks that these bytes are an intact shared library for this machine, and returns what it needs.
///
/// # Errors
///
/// The first problem found.
pub(in crate::plugin) fn prove(bytes: &[u8]) -> Result<Needs, StructureFault> {
    let format = Format::of(bytes)?;
    if format != Format::NATIVE {
        return Err(StructureFault::OtherSystem {
            host: Format::NATIVE,
            plugin: format,
        });
    }
    if format == Format::Elf {
        elf::check_length::<Header<object::NativeEndian>>(bytes)?;
    }
    let file = File::parse(bytes).map_err(damaged)?;
    machine::must_be_hosts(&file)?;
    match file.kind() {
        ObjectKind::Executable => return Err(StructureFault::Executable),
        ObjectKind::Relocatable => return Err(StructureFault::ObjectFile),
        ObjectKind::Core => return Err(StructureFault::CoreDump),
        _ => {} // Mach-O's bundles have no kind of their own
    }
    check_extents(&file, bytes)?;
    match &file {
        File::Elf64(file) => elf::needs(file),
        File::Elf32(file) => elf::needs(file),
        _ => imports(&file).map_err(damaged),
    }
}

/// Checks that all segments and sections lie inside the file.
fn check_extents(file: &File<'_>, bytes: &[u8]) -> Result<(), StructureFault> {
    for (index, segment) in file.segments().enumerate() {
        let (start, size) = segment.file_range();
        must_fit(|| format!("segment {index}"), start, size, bytes)?;
    }
    for section in file.sections() {
        let part = || format!("section `{}`", section.name().unwrap_or("?"));
        let (start, size) = section.file_range().unwrap_or_default();
        must_fit(part, start, size, bytes)?;
    }
    Ok(())
}

/// Reads the names of the libraries that a library imports from.
fn imports(file: &File<'_>) -> object::Result<Needs> {
    let mut needs = Needs::default();
    for library in file.import_libraries()? {
        let name = String::from_utf8_lossy(library?.name()).into_owned();
        needs.needed.push(name);
    }
    Ok(needs)
}

fn damaged(error: object::Error) -> StructureFault {
    StructureFault::Damaged(error.to_string())
}

/// Checks that a part of the file, `size` bytes from `offset`, lies inside it.
fn must_fit(
    part: impl FnOnce() -> String,
    offset: u64,
    size: u64,
    bytes: &[u8],
) -> Result<(), StructureFault> {
    let length = bytes.len() as u64;
    let end = offset.checked_add(size);
    match end {
        Some(end) if end <= length => Ok(()),
        _ => Err(StructureFault::Truncated {
            part: part(),
            end: end.unwrap_or(u64::MAX),
            length,
        }),
    }
}
