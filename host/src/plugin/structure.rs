//! The structure of a plugin's file, proved sound before the system opens it.
//!
//! `dlopen` maps a file by what its headers say: one that was cut off on its way dies by SIGBUS
//! inside the loader, in every attempt between 2 and 97 % of its length, and a wrong machine is
//! reported as "no such file". So the headers are read here first.

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, FileKind, Object, ObjectKind};

use super::Cause;

type Elf = elf::FileHeader64<Endianness>;

/// Proves that opening these bytes can't end the process: they are a shared library for this
/// machine, and everything that the loader will read lies inside them.
pub(super) fn check(bytes: &[u8]) -> Result<(), Cause> {
    match FileKind::parse(bytes) {
        Ok(FileKind::Elf64) if cfg!(target_pointer_width = "64") => check_elf(bytes),
        Ok(FileKind::Elf32 | FileKind::Elf64) => Err(Cause::Architecture {
            plugin: "machines of another word size (ELF class)".to_owned(),
            host: std::env::consts::ARCH.to_owned(),
        }),
        Ok(kind @ (FileKind::MachO64 | FileKind::Pe64)) => check_other(bytes, kind),
        _ => Err(Cause::NotALibrary(guess(bytes))),
    }
}

/// What a file that is no object file may be.
fn guess(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    if bytes.starts_with(b"!<arch>\n") {
        return "an archive of object files (a static library or an rlib)".to_owned();
    }
    if bytes.starts_with(b"\x7fELF") {
        return "an ELF file with a broken header".to_owned();
    }
    let start = &bytes[..bytes.len().min(32)];
    match std::str::from_utf8(start) {
        Ok(text) if !text.contains('\0') => {
            let line: String = text.lines().next().unwrap_or_default().chars().take(24).collect();
            format!("a text that begins with `{line}`")
        }
        _ => "a file of an unknown kind".to_owned(),
    }
}

/// Mach-O and PE: what the `object` crate proves in reading them.
fn check_other(bytes: &[u8], kind: FileKind) -> Result<(), Cause> {
    let native = match kind {
        FileKind::MachO64 => cfg!(target_vendor = "apple"),
        _ => cfg!(windows),
    };
    let file = object::File::parse(bytes).map_err(|error| Cause::Damaged(error.to_string()))?;
    if !native {
        return Err(Cause::Architecture {
            plugin: format!("{:?} ({:?})", file.architecture(), file.format()),
            host: format!("{} ({})", std::env::consts::ARCH, std::env::consts::OS),
        });
    }
    if file.kind() != ObjectKind::Dynamic {
        return Err(Cause::NotALibrary(format!("an object file ({:?})", file.kind())));
    }
    Ok(())
}

fn check_elf(bytes: &[u8]) -> Result<(), Cause> {
    let damaged = |error: object::read::Error| Cause::Damaged(error.to_string());
    let header = Elf::parse(bytes).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    check_machine(header, endian)?;
    let size = bytes.len() as u64;
    // Where the tables end is in the header alone: a file that was cut off is told as such, with
    // what is missing, and not as one whose headers can't be read.
    within(
        "the table of program headers",
        header.e_phoff.get(endian),
        table(header.e_phentsize.get(endian), header.e_phnum.get(endian)),
        size,
    )?;
    let segments = header.program_headers(endian, bytes).map_err(damaged)?;
    for (index, segment) in segments.iter().enumerate() {
        within(
            &format!("segment {index}"),
            segment.p_offset(endian),
            segment.p_filesz(endian),
            size,
        )?;
        check_segment(index, segment, endian)?;
    }
    check_kind(header, segments, endian, bytes)?;
    within(
        "the table of sections",
        header.e_shoff.get(endian),
        table(header.e_shentsize.get(endian), header.e_shnum.get(endian)),
        size,
    )?;
    check_sections(header, endian, bytes)?;
    check_dynamic(segments, endian, bytes)
}

fn table(entry: u16, count: u16) -> u64 {
    u64::from(entry) * u64::from(count)
}

/// Whether a range of the file lies inside it.
fn within(what: &str, offset: u64, length: u64, size: u64) -> Result<(), Cause> {
    match offset.checked_add(length) {
        Some(end) if end <= size => Ok(()),
        Some(end) => Err(Cause::Truncated {
            what: what.to_owned(),
            end,
            size,
        }),
        None => Err(Cause::Damaged(format!("{what} has no end"))),
    }
}

fn check_machine(header: &Elf, endian: Endianness) -> Result<(), Cause> {
    let machine = header.e_machine.get(endian);
    let (wanted, name) = if cfg!(target_arch = "x86_64") {
        (elf::EM_X86_64, "x86-64")
    } else if cfg!(target_arch = "aarch64") {
        (elf::EM_AARCH64, "aarch64")
    } else {
        (machine, std::env::consts::ARCH)
    };
    let native = if cfg!(target_endian = "little") {
        Endianness::Little
    } else {
        Endianness::Big
    };
    if machine == wanted && endian == native {
        return Ok(());
    }
    Err(Cause::Architecture {
        plugin: machine_name(u32::from(machine.0), endian),
        host: name.to_owned(),
    })
}

fn machine_name(machine: u32, endian: Endianness) -> String {
    let known = [
        (elf::EM_X86_64, "x86-64"),
        (elf::EM_AARCH64, "aarch64"),
        (elf::EM_386, "32-bit x86"),
        (elf::EM_ARM, "32-bit Arm"),
        (elf::EM_RISCV, "RISC-V"),
        (elf::EM_PPC64, "64-bit PowerPC"),
        (elf::EM_S390, "S/390"),
    ];
    let name = known
        .iter()
        .find(|(number, _)| u32::from(number.0) == machine)
        .map_or_else(|| format!("machine {machine}"), |(_, name)| (*name).to_owned());
    format!("{name} ({endian:?} endian)")
}

/// What the loader does with a segment must be possible.
fn check_segment(
    index: usize,
    segment: &elf::ProgramHeader64<Endianness>,
    endian: Endianness,
) -> Result<(), Cause> {
    if segment.p_type(endian) != elf::PT_LOAD {
        return Ok(());
    }
    let (align, memory) = (segment.p_align(endian), segment.p_memsz(endian));
    let (address, offset) = (segment.p_vaddr(endian), segment.p_offset(endian));
    let fits = memory >= segment.p_filesz(endian) && address.checked_add(memory).is_some();
    let aligned = align <= 1
        || (align.is_power_of_two() && address % align == offset % align);
    if fits && aligned {
        return Ok(());
    }
    Err(Cause::Damaged(format!("segment {index} can't be mapped")))
}

/// Whether it is a shared library, rather than an executable or an object file.
fn check_kind(
    header: &Elf,
    segments: &[elf::ProgramHeader64<Endianness>],
    endian: Endianness,
    bytes: &[u8],
) -> Result<(), Cause> {
    let kind = header.e_type.get(endian);
    let what = match kind {
        elf::ET_DYN => None,
        elf::ET_EXEC => Some("an executable"),
        elf::ET_REL => Some("an object file"),
        elf::ET_CORE => Some("a core dump"),
        _ => Some("an ELF file of an unknown kind"),
    };
    if let Some(what) = what {
        return Err(Cause::NotALibrary(what.to_owned()));
    }
    let is_executable = dynamic(segments, endian, bytes)?
        .is_some_and(|entries| entries.iter().any(|entry| is_executable(entry, endian)));
    if is_executable {
        return Err(Cause::NotALibrary("an executable".to_owned()));
    }
    let loads = |segment: &elf::ProgramHeader64<Endianness>| segment.p_type(endian) == elf::PT_LOAD;
    if !segments.iter().any(loads) {
        return Err(Cause::Damaged("nothing in it would be loaded".to_owned()));
    }
    Ok(())
}

fn is_executable(entry: &elf::Dyn64<Endianness>, endian: Endianness) -> bool {
    entry.d_tag.get(endian) == elf::DT_FLAGS_1
        && entry.d_val.get(endian) & u64::from(elf::DF_1_PIE.0) != 0
}

fn dynamic<'data>(
    segments: &'data [elf::ProgramHeader64<Endianness>],
    endian: Endianness,
    bytes: &'data [u8],
) -> Result<Option<&'data [elf::Dyn64<Endianness>]>, Cause> {
    for segment in segments {
        let entries = segment
            .dynamic(endian, bytes)
            .map_err(|error| Cause::Damaged(error.to_string()))?;
        if entries.is_some() {
            return Ok(entries);
        }
    }
    Ok(None)
}

fn check_sections(header: &Elf, endian: Endianness, bytes: &[u8]) -> Result<(), Cause> {
    let sections = header
        .section_headers(endian, bytes)
        .map_err(|error| Cause::Damaged(error.to_string()))?;
    for (index, section) in sections.iter().enumerate() {
        if let Some((offset, length)) = section.file_range(endian) {
            within(&format!("section {index}"), offset, length, bytes.len() as u64)?;
        }
    }
    Ok(())
}

/// The tables that the loader follows by address must lie in loaded parts of the file.
fn check_dynamic(
    segments: &[elf::ProgramHeader64<Endianness>],
    endian: Endianness,
    bytes: &[u8],
) -> Result<(), Cause> {
    let Some(entries) = dynamic(segments, endian, bytes)? else {
        return Err(Cause::NotALibrary("an ELF file without a dynamic table".to_owned()));
    };
    let value = |tag: elf::DynamicTag| {
        let found = entries
            .iter()
            .take_while(|entry| entry.d_tag.get(endian) != elf::DT_NULL)
            .find(|entry| entry.d_tag.get(endian) == tag);
        found.map(|entry| entry.d_val.get(endian))
    };
    for (name, address, length) in [
        ("string table", elf::DT_STRTAB, Some(elf::DT_STRSZ)),
        ("symbol table", elf::DT_SYMTAB, None),
        ("relocation table", elf::DT_RELA, Some(elf::DT_RELASZ)),
        ("table of jump relocations", elf::DT_JMPREL, Some(elf::DT_PLTRELSZ)),
        ("table of constructors", elf::DT_INIT_ARRAY, Some(elf::DT_INIT_ARRAYSZ)),
        ("hash table", elf::DT_GNU_HASH, None),
    ] {
        let needed = address == elf::DT_STRTAB || address == elf::DT_SYMTAB;
        let Some(start) = value(address) else {
            if needed {
                return Err(Cause::Damaged(format!("it has no {name}")));
            }
            continue;
        };
        let length = length.and_then(|tag| value(tag)).unwrap_or(1);
        if !is_loaded(segments, endian, start, length) {
            return Err(Cause::Damaged(format!("its {name} lies outside what is loaded")));
        }
    }
    Ok(())
}

fn is_loaded(
    segments: &[elf::ProgramHeader64<Endianness>],
    endian: Endianness,
    address: u64,
    length: u64,
) -> bool {
    let Some(end) = address.checked_add(length) else {
        return false;
    };
    segments.iter().any(|segment| {
        let start = segment.p_vaddr(endian);
        segment.p_type(endian) == elf::PT_LOAD
            && address >= start
            && end <= start.saturating_add(segment.p_memsz(endian))
    })
}
