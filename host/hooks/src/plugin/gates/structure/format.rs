//! The formats of shared libraries.

use std::fmt;

/// The formats of shared libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Linux and most other systems.
    Elf,
    /// macOS.
    MachO,
    /// Windows.
    Pe,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Elf => "ELF (Linux)",
            Format::MachO => "Mach-O (macOS)",
            Format::Pe => "PE (Windows)",
        })
    }
}

impl Format {
    /// The format that this system's loader opens.
    pub const NATIVE: Format = if cfg!(windows) {
        Format::Pe
    } else if cfg!(target_vendor = "apple") {
        Format::MachO
    } else {
        Format::Elf
    };
}
