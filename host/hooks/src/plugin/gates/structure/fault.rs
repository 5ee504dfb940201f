//! Ways in which a file can fail to be an intact shared library for this machine.

use super::format::Format;

/// The reason why a file is not an intact shared library for this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StructureFault {
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It is text, or some other kind of file; contains how it starts.
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
    /// It is a core dump.
    #[error("is a core dump")]
    CoreDump,
    /// It contains code for several architectures.
    #[error("is a universal binary for several architectures")]
    Universal,
    /// It is a library for another operating system.
    #[error("is a {plugin} library, this host needs {host}")]
    OtherSystem {
        /// Format used on this system.
        host: Format,
        /// Format of the file.
        plugin: Format,
    },
    /// It is a library for another processor.
    #[error("built for {plugin}, this host runs {host}")]
    OtherMachine {
        /// Architecture of this process.
        host: String,
        /// Architecture of the file.
        plugin: String,
    },
    /// A part of it extends beyond its end.
    #[error("truncated: {part} ends at byte {end}, the file has {length}")]
    Truncated {
        /// Name of the part.
        part: String,
        /// End of the part, in bytes from the start of the file.
        end: u64,
        /// Length of the file, in bytes.
        length: u64,
    },
    /// It is inconsistent.
    #[error("damaged: {0}")]
    Damaged(String),
}

impl StructureFault {
    /// A remedy.
    pub(in crate::plugin) fn hint(&self) -> &'static str {
        match self {
            StructureFault::Empty
            | StructureFault::Truncated { .. }
            | StructureFault::Damaged(_) => {
                "build or copy the file again; a copy or a download may have been cut short"
            }
            StructureFault::NotALibrary(_) | StructureFault::CoreDump => {
                "name the shared library that cargo built, in `target/release`, or that `cc -shared` wrote"
            }
            StructureFault::StaticLibrary
            | StructureFault::ObjectFile
            | StructureFault::Executable => {
                "build a shared library: in Rust with `crate-type = [\"cdylib\"]` under `[lib]` in the plugin's \
                 Cargo.toml, in C with `cc -shared -fPIC`"
            }
            StructureFault::Universal => "take this machine's part out of it with `lipo -thin`",
            StructureFault::OtherSystem { .. } | StructureFault::OtherMachine { .. } => {
                "build the plugin on this machine, or with `--target` for it"
            }
        }
    }
}
