//! The architecture that a library was built for.

use object::{Architecture, File, Object};

use super::StructureFault;

/// Checks that a library was built for this process's architecture and byte order.
pub(super) fn must_be_hosts(file: &File<'_>) -> Result<(), StructureFault> {
    let host = machine(std::env::consts::ARCH, cfg!(target_endian = "little"));
    let plugin = machine(&name(file.architecture()), file.is_little_endian());
    if host == plugin {
        return Ok(());
    }
    Err(StructureFault::OtherMachine { host, plugin })
}

/// The name of an architecture, as in `std::env::consts::ARCH`.
fn name(architecture: Architecture) -> String {
    match architecture {
        Architecture::Unknown => "an unknown machine".to_owned(),
        Architecture::I386 => "x86".to_owned(),
        known => format!("{known:?}").to_lowercase(),
    }
}

/// The name of a machine as used in messages.
fn machine(architecture: &str, is_little_endian: bool) -> String {
    let architecture = architecture.replace("x86_64", "x86-64");
    if is_little_endian == cfg!(target_endian = "little") {
        return architecture;
    }
    let order = if is_little_endian { "little" } else { "big" };
    format!("{order}-endian {architecture}")
}
