//! What can be wrong with a file that should be a whole shared library for this machine.

use super::format::Format;

/// Why a file is no whole shared library for this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StructureFault {
    /// It has no bytes.
    #[error("is empty")]
    Empty,
    /// It is text, or some other kind of file; says how it starts.
    #[error("is not a shared library: starts with {0}")]
    NotALibrary(String),
    /// It is an archive of object files: a `.a` or a `.rlib`.
    #[error("is a static library")]
    StaticLibrary,
    /// It is an object file.
    #[error("is an object file, not linked yet")]
    ObjectFile,
    /// It is a program.
    #[error("is an executable")]
    Executable,
    /// It is the memory of a program that crashed.
    #[error("is a core dump")]
    CoreDump,
    /// It holds code for several architectures.
    #[error("is a universal binary for several architectures")]
    Universal,
    /// It is a library for another operating system.
    #[error("is a {plugin} library, this host needs {host}")]
    OtherSystem {
        /// What this system uses.
        host: Format,
        /// What the file is.
        plugin: Format,
    },
    /// It is a library for another processor.
    #[error("built for {plugin}, this host runs {host}")]
    OtherMachine {
        /// This process's architecture.
        host: String,
        /// The file's.
        plugin: String,
    },
    /// A part of it lies behind its end.
    #[error("truncated: {part} ends at byte {end}, the file has {length}")]
    Truncated {
        /// Which part.
        part: String,
        /// Where the part ends, in bytes from the file's beginning.
        end: u64,
        /// How many bytes the file has.
        length: u64,
    },
    /// Its parts contradict each other.
    #[error("damaged: {0}")]
    Damaged(String),
}

impl StructureFault {
    /// The contradiction.
    pub(super) fn damaged(what: impl Into<String>) -> StructureFault {
        StructureFault::Damaged(what.into())
    }

    /// What to do.
    pub(in crate::plugin) fn hint(&self) -> &'static str {
        match self {
            StructureFault::Empty
            | StructureFault::Truncated { .. }
            | StructureFault::Damaged(_) => {
                "build or copy the file again; a copy or a download may have been cut short"
            }
            StructureFault::NotALibrary(_) | StructureFault::CoreDump => {
                "name the shared library that cargo built, in `target/release`"
            }
            StructureFault::StaticLibrary
            | StructureFault::ObjectFile
            | StructureFault::Executable => {
                "set `crate-type = [\"cdylib\"]` under `[lib]` in the plugin's Cargo.toml"
            }
            StructureFault::Universal => "take this machine's part out of it with `lipo -thin`",
            StructureFault::OtherSystem { .. } | StructureFault::OtherMachine { .. } => {
                "build the plugin on this machine, or with `--target` for it"
            }
        }
    }
}
