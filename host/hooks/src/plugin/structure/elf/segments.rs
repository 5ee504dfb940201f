//! The program headers: which parts of the file are mapped where.

use object::NativeEndian;
use object::elf::{
    PF_W, PF_X, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_GNU_PROPERTY, PT_GNU_RELRO, PT_GNU_STACK, PT_LOAD,
    PT_NOTE, PT_NULL, PT_PHDR, PT_TLS, ProgramFlags, ProgramType,
};
use object::read::elf::{FileHeader, ProgramHeader};

use super::super::{StructureFault, must_fit};
use super::header::{Header, RawSegment};

/// Maximum number of program headers, more than any linker writes; `ld.so` puts them on the stack.
const MAX_SEGMENTS: u64 = 1024;

/// A program header as integers; sizes and addresses in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) kind: ProgramType,
    pub(super) flags: ProgramFlags,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) file_size: u64,
    pub(super) memory_size: u64,
    pub(super) align: u64,
}

impl Segment {
    fn new(raw: &RawSegment<NativeEndian>) -> Segment {
        Segment {
            kind: raw.p_type(NativeEndian),
            flags: raw.p_flags(NativeEndian),
            offset: raw.p_offset(NativeEndian).into(),
            address: raw.p_vaddr(NativeEndian).into(),
            file_size: raw.p_filesz(NativeEndian).into(),
            memory_size: raw.p_memsz(NativeEndian).into(),
            align: raw.p_align(NativeEndian).into(),
        }
    }

    /// Whether `size` bytes from `address` lie in the segment's first `own` bytes.
    fn holds(&self, own: u64, address: u64, size: u64) -> bool {
        let inside = address.checked_sub(self.address);
        inside
            .and_then(|start| start.checked_add(size))
            .is_some_and(|end| end <= own)
    }

    pub(super) fn is_writable(&self) -> bool {
        self.flags.0 & PF_W.0 != 0
    }
}

/// The program headers of a file, all of which lie inside it.
pub(super) struct Segments<'data> {
    bytes: &'data [u8],
    all: Vec<Segment>,
}

impl<'data> Segments<'data> {
    /// Reads and checks the program headers.
    pub(super) fn read(header: &Header, bytes: &'data [u8]) -> Result<Self, StructureFault> {
        let offset = header.e_phoff(NativeEndian).into();
        let count = u64::from(header.e_phnum(NativeEndian));
        let entry = size_of::<RawSegment<NativeEndian>>() as u64;
        if u64::from(header.e_phentsize(NativeEndian)) != entry || count > MAX_SEGMENTS {
            return Err(StructureFault::damaged("program headers of another size"));
        }
        let part = || "the table of program headers".to_owned();
        must_fit(part, offset, entry * count, bytes)?;
        let raw = header
            .program_headers(NativeEndian, bytes)
            .map_err(|error| StructureFault::damaged(error.to_string()))?;
        let all = raw.iter().map(Segment::new).collect();
        let segments = Segments { bytes, all };
        segments.must_fit()?;
        segments.check_loads()?;
        segments.check_others()?;
        Ok(segments)
    }

    /// The program header of this kind; the last one if there are several.
    pub(super) fn of_kind(&self, kind: ProgramType) -> Option<&Segment> {
        self.all.iter().rev().find(|segment| segment.kind == kind)
    }

    fn must_fit(&self) -> Result<(), StructureFault> {
        for (index, segment) in self.all.iter().enumerate() {
            let without_content = [PT_NULL, PT_GNU_STACK].contains(&segment.kind);
            if !without_content && segment.file_size > 0 {
                let part = || format!("segment {index}");
                must_fit(part, segment.offset, segment.file_size, self.bytes)?;
            }
        }
        Ok(())
    }

    fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.all.iter().filter(|segment| segment.kind == PT_LOAD)
    }

    /// Checks that loaded segments are in ascending order. `ld.so` uses the end of the last one as the end of
    /// all.
    fn check_loads(&self) -> Result<(), StructureFault> {
        let mut end = 0;
        for load in self.loads() {
            let align = load.align.max(1);
            if !align.is_power_of_two() || load.address % align != load.offset % align {
                return Err(StructureFault::damaged("a loaded segment is misaligned"));
            }
            if load.file_size > load.memory_size {
                return Err(StructureFault::damaged(
                    "a segment is larger than its memory",
                ));
            }
            if load.address < end {
                return Err(StructureFault::damaged("loaded segments overlap"));
            }
            end = load
                .address
                .checked_add(load.memory_size)
                .filter(|&end| end < 1 << (super::word::WORD * 8 - 2))
                .ok_or_else(|| StructureFault::damaged("a segment ends beyond all addresses"))?;
        }
        if end == 0 {
            return Err(StructureFault::damaged("nothing in it is to be loaded"));
        }
        Ok(())
    }

    /// Checks that the other headers refer to loaded memory.
    fn check_others(&self) -> Result<(), StructureFault> {
        for segment in &self.all {
            let name = match segment.kind {
                PT_DYNAMIC => "the dynamic segment",
                PT_PHDR => "the program headers' copy",
                PT_TLS => "the thread-local data",
                PT_GNU_RELRO => "the part to protect",
                PT_GNU_EH_FRAME => "the unwinding table",
                PT_GNU_PROPERTY | PT_NOTE => "a note",
                _ => continue,
            };
            let size = if segment.kind == PT_GNU_RELRO {
                segment.memory_size
            } else {
                segment.file_size
            };
            if !self.in_memory(segment.address, size) {
                return Err(not_loaded(name));
            }
            let align = segment.align.max(1);
            let sound = align.is_power_of_two() && segment.file_size <= segment.memory_size;
            if segment.kind == PT_TLS && !sound {
                return Err(StructureFault::damaged(
                    "the thread-local data has no sound size",
                ));
            }
        }
        Ok(())
    }

    /// Whether these bytes lie in the memory of a single loaded segment.
    pub(super) fn in_memory(&self, address: u64, size: u64) -> bool {
        self.loads()
            .any(|load| load.holds(load.memory_size, address, size))
    }

    /// Whether these bytes lie in a single writable segment.
    pub(super) fn is_writable(&self, address: u64, size: u64) -> bool {
        self.loads()
            .any(|load| load.is_writable() && load.holds(load.memory_size, address, size))
    }

    /// Whether this address is in an executable segment.
    pub(super) fn is_code(&self, address: u64) -> bool {
        self.loads()
            .any(|load| load.flags.0 & PF_X.0 != 0 && load.holds(load.file_size, address, 1))
    }

    /// The file's bytes from this address to the end of its segment.
    pub(super) fn rest_at(&self, address: u64) -> Option<&'data [u8]> {
        let load = self
            .loads()
            .find(|load| load.holds(load.file_size, address, 1))?;
        let start = usize::try_from(load.offset + (address - load.address)).ok()?;
        let end = usize::try_from(load.offset + load.file_size).ok()?;
        self.bytes.get(start..end)
    }

    /// The file's bytes at this address; `name` is used in the message.
    pub(super) fn at(
        &self,
        address: u64,
        size: u64,
        name: &str,
    ) -> Result<&'data [u8], StructureFault> {
        if size == 0 {
            return Ok(&[]);
        }
        let size = usize::try_from(size).map_err(|_| not_loaded(name))?;
        self.rest_at(address)
            .and_then(|bytes| bytes.get(..size))
            .ok_or_else(|| not_loaded(name))
    }
}

fn not_loaded(name: &str) -> StructureFault {
    StructureFault::damaged(format!("{name} lies outside of what is loaded"))
}
