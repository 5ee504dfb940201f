//! The dynamic segment: the table that points the loader to all other tables.

use object::elf::{
    DF_1_PIE, DT_FINI, DT_FINI_ARRAY, DT_FINI_ARRAYSZ, DT_FLAGS_1, DT_INIT, DT_INIT_ARRAY,
    DT_INIT_ARRAYSZ, DT_NULL, DT_SONAME, DT_VERDEF, DT_VERNEED, DT_VERSYM, DynamicTag, PT_DYNAMIC,
    PT_INTERP,
};

use super::super::StructureFault;
use super::segments::Segments;
use super::word::WORD;

/// The entries of the dynamic segment, without the terminating one.
pub(super) struct Dynamic {
    entries: Vec<(i64, u64)>,
}

impl Dynamic {
    /// Reads the segment where the loader does: at its address, not at its offset in the file.
    pub(super) fn read(segments: &Segments<'_>) -> Result<Dynamic, StructureFault> {
        let segment = segments
            .of_kind(PT_DYNAMIC)
            .ok_or_else(|| StructureFault::damaged("has no dynamic segment"))?;
        let name = "the dynamic segment";
        let bytes = segments.at(segment.address, segment.file_size, name)?;
        // The loader relocates the entries in place if the segment is marked as writable.
        if segment.is_writable() && !segments.is_writable(segment.address, segment.file_size) {
            return Err(StructureFault::damaged(
                "the dynamic segment is not writable",
            ));
        }
        let mut entries = Vec::new();
        for entry in bytes.chunks_exact(2 * WORD as usize) {
            let (tag, value) = entry.split_at(WORD as usize);
            let tag = word(tag).cast_signed();
            if tag == tag_number(DT_NULL) {
                return Ok(Dynamic { entries });
            }
            entries.push((tag, word(value)));
        }
        Err(StructureFault::damaged("the dynamic segment has no end"))
    }

    /// The value of the last entry with this tag, which is the one that the loader uses.
    pub(super) fn get(&self, tag: DynamicTag) -> Option<u64> {
        self.all(tag).last()
    }

    /// The values of all entries with this tag.
    pub(super) fn all(&self, tag: DynamicTag) -> impl Iterator<Item = u64> {
        let wanted = tag_number(tag);
        let with_tag = move |entry: &&(i64, u64)| entry.0 == wanted;
        self.entries.iter().filter(with_tag).map(|entry| entry.1)
    }

    /// The value of an entry that every library must have.
    pub(super) fn required(&self, tag: DynamicTag, name: &str) -> Result<u64, StructureFault> {
        self.get(tag)
            .ok_or_else(|| StructureFault::damaged(format!("the dynamic segment names no {name}")))
    }

    /// Checks that an entry, if present, has the only value that the loader accepts: it asserts this.
    pub(super) fn must_be(
        &self,
        tag: DynamicTag,
        expected: u64,
        name: &str,
    ) -> Result<(), StructureFault> {
        match self.get(tag) {
            Some(value) if value != expected => Err(StructureFault::damaged(format!(
                "{name} is {value} instead of {expected}"
            ))),
            _ => Ok(()),
        }
    }

    /// Whether the file is a position-independent executable. Linkers have marked those since 2016; before,
    /// they are recognised by an interpreter without a library name, since the few libraries that are also
    /// programs have one.
    pub(super) fn is_executable(&self, segments: &Segments<'_>) -> bool {
        let flags = self.get(DT_FLAGS_1).unwrap_or(0);
        let is_marked = flags & DF_1_PIE.0 != 0;
        let is_started = segments.of_kind(PT_INTERP).is_some() && self.get(DT_SONAME).is_none();
        is_marked || is_started
    }

    /// Checks that the functions to call and the version tables lie in loaded memory.
    pub(super) fn check_tables(&self, segments: &Segments<'_>) -> Result<(), StructureFault> {
        for (tag, name) in [(DT_INIT, "the initialiser"), (DT_FINI, "the finaliser")] {
            if self
                .get(tag)
                .is_some_and(|address| !segments.is_code(address))
            {
                return Err(StructureFault::damaged(format!("{name} is not a code")));
            }
        }
        for (table, size, name) in [
            (DT_INIT_ARRAY, DT_INIT_ARRAYSZ, "the table of initialisers"),
            (DT_FINI_ARRAY, DT_FINI_ARRAYSZ, "the table of finalisers"),
        ] {
            if let Some(address) = self.get(table) {
                segments.at(address, self.required(size, name)?, name)?;
            }
        }
        for (tag, name) in [
            (DT_VERSYM, "the symbols' versions"),
            (DT_VERNEED, "the needed versions"),
            (DT_VERDEF, "the defined versions"),
        ] {
            if let Some(address) = self.get(tag) {
                segments.at(address, 2, name)?;
            }
        }
        Ok(())
    }
}

fn tag_number(tag: DynamicTag) -> i64 {
    tag.0
}

/// Reads a word of this process's size and byte order; what is too short for one is 0.
pub(super) fn word(bytes: &[u8]) -> u64 {
    let word = bytes.first_chunk().map(|word| usize::from_ne_bytes(*word));
    word.unwrap_or(0) as u64
}

/// Reads a 32-bit number in this process's byte order; what is too short for one is 0.
pub(super) fn number(bytes: &[u8]) -> u32 {
    let number = bytes
        .first_chunk()
        .map(|number| u32::from_ne_bytes(*number));
    number.unwrap_or(0)
}
