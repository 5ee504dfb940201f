//! The two files in memory that a hook's process and this one share: where in them is what, and who may write to it.
//!
//! | file | begins with | then | written by |
//! |---|---|---|---|
//! | *to child* | words | the message to the child | the parent |
//! | *from child* | words | the message to the parent | the child |
//! | | tensors | lent by the parent | both |
//! | | | given by the child | the child |
//!
//! The child can't write to the first one: it is sealed before the child starts, so that the child can map it for reading
//! alone. The parent maps what only the child writes for reading. Neither file can become shorter or longer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};

use crate::faults::WatchedRange;

/// Areas begin at multiples of this, in bytes: of each size of pages that Linux has on processors with 64 bits.
const PAGE: u64 = 64 << 10;

/// Most room for a message in each direction, in bytes. Only what is written takes memory.
const MESSAGE: u64 = 256 << 20;

/// Least memory in bytes, where the hook's is limited.
pub(super) const LEAST: u64 = 1 << 20;

/// Room for tensors, in bytes: the most that is tried, and the least that is accepted where address space is limited.
const MOST_TENSORS: u64 = 64 << 30;
const LEAST_TENSORS: u64 = 64 << 20;

/// Areas with tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arena {
    /// Lent by the parent, written to by the child.
    Lent,
    /// Given by the child, read by the parent.
    Given,
}

/// A word at the beginning of a file, on a cache line of its own.
#[derive(Clone, Copy)]
pub(super) enum Word {
    /// Number of messages that its writer has sent.
    Count = 0,
    /// Whether its writer sleeps until its bell rings.
    Sleeps = 1,
    /// Length of the last message, which is 64 bits wide.
    Length = 2,
}

/// Sizes of the areas, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Of a message in each direction.
    pub(super) message: u64,
    /// Of each area for tensors.
    pub(super) arena: u64,
}

impl Layout {
    /// The largest that takes at most this many bytes, which are at least [`LEAST`].
    fn within(most: u64) -> Layout {
        let message = rounded((most / 8).min(MESSAGE));
        let left = most.saturating_sub(2 * (PAGE + message));
        Layout {
            message,
            arena: rounded(left / 2),
        }
    }

    /// That of two files, by their lengths.
    fn of(to_child: u64, from_child: u64) -> Option<Layout> {
        let message = to_child.checked_sub(PAGE)?;
        let arenas = from_child.checked_sub(to_child)?;
        let layout = Layout {
            message,
            arena: arenas / 2,
        };
        (layout.lengths() == [to_child, from_child] && message > 0).then_some(layout)
    }

    /// Lengths of the files: to the child, from the child.
    fn lengths(self) -> [u64; 2] {
        let first = PAGE + self.message;
        [first, first + 2 * self.arena]
    }

    /// Where an area for tensors begins in the file from the child.
    pub(super) fn begin(self, arena: Arena) -> u64 {
        let first = PAGE + self.message;
        match arena {
            Arena::Lent => first,
            Arena::Given => first + self.arena,
        }
    }
}

fn rounded(length: u64) -> u64 {
    length / PAGE * PAGE
}

/// A file, mapped into this process.
#[derive(Debug)]
pub(super) struct Mapping {
    begin: NonNull<u8>,
    length: usize,
    /// In the parent, which must not end with the memory.
    watched: Option<WatchedRange>,
}

impl Mapping {
    fn new(file: &OwnedFd, rights: ProtFlags) -> io::Result<Mapping> {
        let length = usize::try_from(length_of(file)?).map_err(io::Error::other)?;
        // SAFETY: a new mapping, at an address that the system chooses.
        let begin = unsafe {
            let flags = MapFlags::SHARED | MapFlags::NORESERVE;
            mmap(std::ptr::null_mut(), length, rights, flags, file, 0)
        }?;
        let begin = NonNull::new(begin.cast()).ok_or_else(|| io::Error::other("no memory"))?;
        Ok(Mapping {
            begin,
            length,
            watched: None,
        })
    }

    /// Replaces pages that are gone instead of ending this process.
    fn watched(mut self) -> Mapping {
        self.watched = WatchedRange::new(self.begin.as_ptr() as usize, self.length);
        self
    }

    /// Whether a page of it was gone when this process touched it.
    pub(super) fn is_broken(&self) -> bool {
        self.watched.as_ref().is_some_and(WatchedRange::is_broken)
    }

    /// One of the words; only its writer has it in memory that can be written to, the other one loads it (relaxed, which is
    /// a plain load).
    pub(super) fn word(&self, word: Word) -> &AtomicU32 {
        // SAFETY: the word is within the mapping, aligned, and lives as long; both processes access it atomically.
        unsafe { &*self.begin.as_ptr().add(word as usize * 64).cast() }
    }

    /// Length of the last message.
    pub(super) fn message_length(&self) -> &AtomicU64 {
        // SAFETY: as in `word`.
        unsafe { &*self.begin.as_ptr().add(Word::Length as usize * 64).cast() }
    }

    /// Where the message is.
    pub(super) fn message(&self) -> *mut u8 {
        // SAFETY: both files have a message area behind their words.
        unsafe { self.begin.as_ptr().add(PAGE as usize) }
    }

    /// Where `length` bytes at an offset are; none if it does not have them.
    fn place(&self, offset: u64, length: u64) -> Option<NonNull<u8>> {
        let end = offset.checked_add(length)?;
        if end > self.length as u64 {
            return None;
        }
        // SAFETY: within the mapping, by the check above.
        NonNull::new(unsafe { self.begin.as_ptr().add(offset as usize) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // Before another mapping can be there.
        self.watched = None;
        // SAFETY: the mapping is this value's own, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.length) };
    }
}

/// Both files, mapped into this process.
#[derive(Debug)]
pub(super) struct SharedMemory {
    pub(super) to_child: Mapping,
    pub(super) from_child: Mapping,
    pub(super) layout: Layout,
}

impl SharedMemory {
    /// Creates the files, of which the child may fill at most `limit` bytes, and returns the parent's mappings of them.
    ///
    /// # Errors
    ///
    /// If the system refuses memory.
    pub(super) fn new(limit: Option<u64>) -> io::Result<(SharedMemory, [OwnedFd; 2])> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let to_child = memfd_create("sconce-to-hook", flags)?;
        let from_child = memfd_create("sconce-from-hook", flags)?;
        let mut tensors = MOST_TENSORS;
        let (mapping, layout) = loop {
            let all = 2 * (PAGE + MESSAGE + tensors);
            let layout = Layout::within(limit.map_or(all, |limit| limit.clamp(LEAST, all)));
            let [first, second] = layout.lengths();
            ftruncate(&to_child, first)?;
            ftruncate(&from_child, second)?;
            match Mapping::new(&from_child, ProtFlags::READ) {
                Err(_) if tensors > LEAST_TENSORS => tensors /= 4,
                mapped => break (mapped?, layout),
            }
        };
        let memory = SharedMemory {
            to_child: Mapping::new(&to_child, ProtFlags::READ | ProtFlags::WRITE)?.watched(),
            from_child: mapping.watched(),
            layout,
        };
        memory.allow_lending()?;
        for file in [&to_child, &from_child] {
            fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW)?;
        }
        // This mapping stays writable, and the child's can't become so.
        seal(&to_child)?;
        Ok((memory, [to_child, from_child]))
    }

    /// The child's mappings of both files.
    ///
    /// # Errors
    ///
    /// If they are not the parent's, or the system refuses.
    pub(super) fn of_child([to_child, from_child]: &[OwnedFd; 2]) -> io::Result<SharedMemory> {
        let layout = Layout::of(length_of(to_child)?, length_of(from_child)?);
        let layout = layout.ok_or_else(|| io::Error::other("the shared memory is too small"))?;
        Ok(SharedMemory {
            to_child: Mapping::new(to_child, ProtFlags::READ)?,
            from_child: Mapping::new(from_child, ProtFlags::READ | ProtFlags::WRITE)?,
            layout,
        })
    }

    /// Lets this process write to the area for tensors that it lends.
    fn allow_lending(&self) -> io::Result<()> {
        let area = self.place(Arena::Lent, 0, self.layout.arena);
        let area = area.ok_or_else(|| io::Error::other("the shared memory is too small"))?;
        // SAFETY: the area is part of the mapping, and nothing borrows from it yet.
        unsafe {
            let flags = MprotectFlags::READ | MprotectFlags::WRITE;
            mprotect(area.as_ptr().cast(), self.layout.arena as usize, flags)?;
        }
        Ok(())
    }

    /// Size of both mappings in bytes.
    pub(super) fn size(&self) -> u64 {
        (self.to_child.length + self.from_child.length) as u64
    }

    /// Whether a page was gone when this process touched it.
    pub(super) fn is_broken(&self) -> bool {
        self.to_child.is_broken() || self.from_child.is_broken()
    }

    /// Where `length` bytes at an offset of an arena are; none if it does not have them.
    pub(super) fn place(&self, arena: Arena, offset: u64, length: u64) -> Option<NonNull<u8>> {
        if offset.checked_add(length)? > self.layout.arena {
            return None;
        }
        let begin = self.layout.begin(arena);
        self.from_child.place(begin + offset, length)
    }
}

/// Seals a file against new writable mappings and writing, and the seals against more of them. Mappings stay as they are.
///
/// # Errors
///
/// If the system refuses.
pub(super) fn seal(file: &impl AsFd) -> io::Result<()> {
    match fcntl_add_seals(file, SealFlags::FUTURE_WRITE | SealFlags::SEAL) {
        // Linux before 5.1 has no such seal.
        Err(Errno::INVAL) => Ok(fcntl_add_seals(file, SealFlags::SEAL)?),
        sealed => Ok(sealed?),
    }
}

fn length_of(file: &OwnedFd) -> io::Result<u64> {
    u64::try_from(fstat(file)?.st_size).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_maps_what_the_parent_writes_for_reading_alone() {
        let (_memory, [to_child, from_child]) = SharedMemory::new(Some(LEAST)).expect("memory");
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let refused = Mapping::new(&to_child, both).expect_err("sealed");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let mapping = Mapping::new(&to_child, ProtFlags::READ).expect("for reading");
        // SAFETY: the mapping is this test's own.
        let changed = unsafe {
            let flags = MprotectFlags::READ | MprotectFlags::WRITE;
            mprotect(mapping.begin.as_ptr().cast(), mapping.length, flags)
        };
        assert_eq!(changed, Err(Errno::ACCESS));
        assert_eq!(rustix::io::pwrite(&to_child, &[1], 0), Err(Errno::PERM));
        for more in [SealFlags::WRITE, SealFlags::SHRINK] {
            assert_eq!(fcntl_add_seals(&to_child, more), Err(Errno::PERM));
        }
        Mapping::new(&from_child, both).expect("not sealed until both ends have mapped it");
        for file in [&to_child, &from_child] {
            let length = length_of(file).expect("its length");
            for length in [0, length - 1, length + 1] {
                assert_eq!(ftruncate(file, length), Err(Errno::PERM), "{length}");
            }
        }
    }

    #[test]
    fn limited_memory_has_room_for_messages_and_tensors_within_its_limit() {
        for limit in [0, LEAST, 32 << 20, 10 << 30, u64::MAX] {
            let (parent, files) = SharedMemory::new(Some(limit)).expect("memory");
            let child = SharedMemory::of_child(&files).expect("mapped");
            assert_eq!(child.layout, parent.layout);
            assert_eq!(child.size(), parent.size());
            assert!(parent.size() <= limit.max(LEAST), "{limit}");
            let size = parent.layout.arena;
            assert!(size >= parent.size() / 4, "{size}");
            for arena in [Arena::Lent, Arena::Given] {
                assert!(parent.place(arena, size - 8, 9).is_none());
                assert!(parent.place(arena, u64::MAX, 1).is_none());
                let place = child.place(arena, size - 8, 8).expect("room");
                // SAFETY: 8 bytes of the mapping, which nothing else uses.
                unsafe { place.as_ptr().write_bytes(1, 8) };
                let place = parent.place(arena, size - 8, 8).expect("room");
                // SAFETY: as above.
                assert_eq!(unsafe { place.as_ptr().add(7).read_volatile() }, 1);
            }
            let lent = parent.place(Arena::Lent, 0, 8).expect("room");
            // SAFETY: as above.
            unsafe { lent.as_ptr().write_bytes(2, 8) };
        }
    }
}
