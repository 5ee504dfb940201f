//! The structure gate: checks from a file's bytes that opening it cannot kill this process.
//!
//! The system's loaders trust their input: `dlopen` of a truncated library raises SIGBUS, a wrong table size
//! triggers an assertion. So everything that they rely on is checked here first, in safe code. The machine
//! code itself is not: a malicious plugin, or one with garbled code, is not detected here.

mod detect;
mod elf;
mod fault;
mod format;
mod machine;
mod macho;
mod pe;
#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
pub(super) use elf::is_systems;
pub use fault::StructureFault;
pub use format::Format;

/// Properties of a library that passed the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Structure {
    /// Its format.
    pub format: Format,
    /// Libraries that it depends on.
    pub needs: Needs,
}

/// A library's dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Names of the libraries that it needs, in its own order.
    pub needed: Vec<String>,
    /// Whether it looks for them relative to its own file (`$ORIGIN`).
    pub looks_beside: bool,
    /// Names and places by which others are loaded from outside of the system's directories.
    pub outside: Vec<String>,
}

impl Needs {
    fn libraries(needed: Vec<String>) -> Needs {
        Needs {
            needed,
            ..Needs::default()
        }
    }
}

/// Checks that these bytes are an intact shared library for this machine.
///
/// # Errors
///
/// The first problem found.
pub(super) fn prove(bytes: &[u8]) -> Result<Structure, StructureFault> {
    let format = Format::of(bytes)?;
    if format != Format::NATIVE {
        return Err(StructureFault::OtherSystem {
            host: Format::NATIVE,
            plugin: format,
        });
    }
    let needs = match format {
        Format::Elf => elf::prove(bytes)?,
        Format::MachO => Needs::libraries(macho::prove(bytes)?),
        Format::Pe => Needs::libraries(pe::prove(bytes)?),
    };
    Ok(Structure { format, needs })
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
