//! Machine numbers of architectures in each file format.

use super::StructureFault;

/// An architecture's number in each format; 0 if the format has none.
struct Machine {
    name: &'static str,
    elf: u16,
    macho: u32,
    pe: u16,
}

/// Names are those of `std::env::consts::ARCH`, so that host and plugin can be compared.
const MACHINES: &[Machine] = &[
    machine("x86_64", 62, 0x0100_0007, 0x8664),
    machine("aarch64", 183, 0x0100_000c, 0xaa64),
    machine("x86", 3, 7, 0x014c),
    machine("arm", 40, 12, 0x01c4),
    machine("riscv", 243, 0, 0x5064),
    machine("powerpc64", 21, 0x0100_0012, 0),
    machine("powerpc", 20, 18, 0),
    machine("s390x", 22, 0, 0),
    machine("loongarch", 258, 0, 0x6264),
    machine("mips", 8, 0, 0),
    machine("sparc64", 43, 0, 0),
    machine("BPF", 247, 0, 0),
    machine("wasm", 0x4157, 0, 0),
];

const fn machine(name: &'static str, elf: u16, macho: u32, pe: u16) -> Machine {
    Machine {
        name,
        elf,
        macho,
        pe,
    }
}

/// This process's architecture, without its word size if the formats do not distinguish it.
fn host() -> &'static str {
    match std::env::consts::ARCH {
        "riscv64" | "riscv32" => "riscv",
        "loongarch64" => "loongarch",
        arch => arch,
    }
}

/// Checks that an ELF file's machine number is that of this process.
pub(super) fn must_be_host_elf(number: u16) -> Result<(), StructureFault> {
    let found = MACHINES.iter().find(|machine| machine.elf == number);
    must_be_host(found, u32::from(number))
}

/// Checks that a Mach-O file's processor type is that of this process.
pub(super) fn must_be_host_macho(number: u32) -> Result<(), StructureFault> {
    let known = |machine: &&Machine| machine.macho != 0 && machine.macho == number;
    must_be_host(MACHINES.iter().find(known), number)
}

/// Checks that a PE file's machine number is that of this process.
pub(super) fn must_be_host_pe(number: u16) -> Result<(), StructureFault> {
    let known = |machine: &&Machine| machine.pe != 0 && machine.pe == number;
    must_be_host(MACHINES.iter().find(known), u32::from(number))
}

fn must_be_host(found: Option<&Machine>, number: u32) -> Result<(), StructureFault> {
    let name = found.map(|machine| machine.name);
    if name == Some(host()) {
        return Ok(());
    }
    let unknown = || format!("a machine with number {number}");
    Err(StructureFault::OtherMachine {
        host: readable(host()).to_owned(),
        plugin: name.map_or_else(unknown, |name| readable(name).to_owned()),
    })
}

/// The name of an architecture as used in messages.
fn readable(name: &str) -> &str {
    match name {
        "x86_64" => "x86-64",
        other => other,
    }
}
