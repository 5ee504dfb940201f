//! Shared memory through which a hook's process and this one exchange messages and tensors.
//!
//! Each side writes to an area of its own, then counts up a word that the other waits for. Whoever waits first looks at
//! the word for a moment (the parent only: the child shares the training's cores), then sets its sleeping flag and waits
//! for its eventfd, which the other side writes to if it finds the flag set.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Size of the page with the words, in bytes.
const CONTROL: u64 = 4096;

/// Room for a message in each direction, in bytes. Only what is written takes memory.
const MESSAGE: u64 = 256 << 20;

/// Room for tensors, in bytes: the most that is tried, and the least that is accepted where address space is limited.
const MOST_TENSORS: u64 = 64 << 30;
const LEAST_TENSORS: u64 = 64 << 20;

/// Tensors begin at multiples of this.
const ALIGNMENT: u64 = 128;

/// How long the parent looks at the word before it sleeps.
const LOOKING: Duration = Duration::from_micros(20);

/// Which process this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Parent,
    Child,
}

/// Areas with tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arena {
    /// Lent by the parent, written to by the child.
    Lent,
    /// Given by the child, read by the parent.
    Given,
}

/// Why a wait ended without a message.
#[derive(Debug)]
pub(super) enum Silence {
    /// The deadline has passed.
    Late,
    /// The other process has ended.
    Ended,
    /// The system refused to wait.
    System(io::Error),
}

/// One end of the shared memory.
#[derive(Debug)]
pub(super) struct Channel {
    file: OwnedFd,
    memory: NonNull<u8>,
    length: usize,
    side: Side,
    /// Written to by the other side to wake this one.
    bell: OwnedFd,
    /// Written to by this side to wake the other one.
    other_bell: OwnedFd,
    /// The word of the last message received.
    received: u32,
}

// SAFETY: the memory is shared with another process anyway; within this one, only the owner of the value uses it.
unsafe impl Send for Channel {}

/// A word of the control page, on a cache line of its own.
#[derive(Clone, Copy)]
enum Word {
    /// Number of messages so far, per receiver.
    ToChild = 0,
    ToParent = 1,
    /// Whether the receiver sleeps.
    ChildSleeps = 2,
    ParentSleeps = 3,
    /// Length of the last message, per receiver.
    ChildLength = 4,
    ParentLength = 5,
}

impl Side {
    fn count(self) -> Word {
        match self {
            Side::Parent => Word::ToParent,
            Side::Child => Word::ToChild,
        }
    }

    fn sleeps(self) -> Word {
        match self {
            Side::Parent => Word::ParentSleeps,
            Side::Child => Word::ChildSleeps,
        }
    }

    fn length(self) -> Word {
        match self {
            Side::Parent => Word::ParentLength,
            Side::Child => Word::ChildLength,
        }
    }

    /// Offset of the area with this side's incoming messages.
    fn inbox(self) -> u64 {
        match self {
            Side::Parent => CONTROL,
            Side::Child => CONTROL + MESSAGE,
        }
    }

    fn other(self) -> Side {
        match self {
            Side::Parent => Side::Child,
            Side::Child => Side::Parent,
        }
    }
}

impl Channel {
    /// Creates the memory and returns the parent's end.
    ///
    /// # Errors
    ///
    /// If the system refuses memory or descriptors.
    pub(super) fn new() -> io::Result<Channel> {
        let file = memfd_create("sconce-hook", MemfdFlags::CLOEXEC)?;
        let mut tensors = MOST_TENSORS;
        loop {
            ftruncate(&file, CONTROL + 2 * MESSAGE + 2 * tensors)?;
            let bells = [
                eventfd(0, EventfdFlags::CLOEXEC)?,
                eventfd(0, EventfdFlags::CLOEXEC)?,
            ];
            match Channel::over(file.try_clone()?, bells, Side::Parent) {
                Err(_) if tensors > LEAST_TENSORS => tensors /= 4,
                channel => return channel,
            }
        }
    }

    /// One end of existing memory.
    ///
    /// # Errors
    ///
    /// If the memory can't be mapped.
    pub(super) fn over(
        file: OwnedFd,
        [bell, other_bell]: [OwnedFd; 2],
        side: Side,
    ) -> io::Result<Channel> {
        let all = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        let length = usize::try_from(all).map_err(io::Error::other)?;
        if all < CONTROL + 2 * MESSAGE {
            return Err(io::Error::other("the shared memory is too small"));
        }
        // SAFETY: a new mapping, at an address that the system chooses.
        let memory = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &file,
                0,
            )
        }?;
        let memory = NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("no memory"))?;
        Ok(Channel {
            file,
            memory,
            length,
            side,
            bell,
            other_bell,
            received: 0,
        })
    }

    /// Descriptors that the child's end needs: the memory, its own bell, and the parent's.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [
            self.file.as_fd(),
            self.other_bell.as_fd(),
            self.bell.as_fd(),
        ]
    }

    /// Size of the mapping in bytes.
    pub(super) fn size(&self) -> u64 {
        self.length as u64
    }

    fn word(&self, word: Word) -> &AtomicU32 {
        // SAFETY: the word is within the control page, aligned, and lives as long as the mapping; both processes access
        // it atomically.
        unsafe { &*self.memory.as_ptr().add(word as usize * 64).cast() }
    }

    /// Length of a message, whose word is 64 bits wide.
    fn length_word(&self, side: Side) -> &AtomicU64 {
        // SAFETY: as in `word`.
        unsafe { &*self.memory.as_ptr().add(side.length() as usize * 64).cast() }
    }

    /// Sends a message; the other side must be waiting for one.
    ///
    /// # Errors
    ///
    /// If the message is too long.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        let to = self.side.other();
        if message.len() as u64 > MESSAGE {
            let length = message.len();
            return Err(io::Error::other(format!(
                "{length} bytes are more than a message between the processes can have ({MESSAGE})"
            )));
        }
        // SAFETY: the area has room for the message, is not in the memory of `message`, and is not read by the other side
        // before the word is counted up.
        unsafe {
            let area = self.memory.as_ptr().add(to.inbox() as usize);
            area.copy_from_nonoverlapping(message.as_ptr(), message.len());
        }
        let length = message.len() as u64;
        self.length_word(to).store(length, Ordering::Relaxed);
        self.word(to.count()).fetch_add(1, Ordering::Release);
        // The other side sets its flag, then looks at the word: one of the two sees what the other wrote.
        fence(Ordering::SeqCst);
        if self.word(to.sleeps()).swap(0, Ordering::Relaxed) != 0 {
            rustix::io::write(&self.other_bell, &1_u64.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Waits for a message and copies it to `message`. `process` is the other process, whose end also ends the wait.
    ///
    /// # Errors
    ///
    /// If none came.
    pub(super) fn receive(
        &mut self,
        message: &mut Vec<u8>,
        deadline: Option<Instant>,
        process: Option<BorrowedFd<'_>>,
    ) -> Result<(), Silence> {
        self.wait(deadline, process)?;
        self.received = self.word(self.side.count()).load(Ordering::Acquire);
        let length = self.length_word(self.side).load(Ordering::Relaxed);
        if length > MESSAGE {
            let error = io::Error::other("a message's length is out of range");
            return Err(Silence::System(error));
        }
        message.clear();
        message.reserve(length as usize);
        // SAFETY: the area has this many bytes, and so has the vector; the copy is what is looked at, whatever the other
        // process writes there meanwhile.
        unsafe {
            let area = self.memory.as_ptr().add(self.side.inbox() as usize);
            area.copy_to_nonoverlapping(message.as_mut_ptr(), length as usize);
            message.set_len(length as usize);
        }
        Ok(())
    }

    /// Whether a message is there.
    fn has_message(&self) -> bool {
        self.word(self.side.count()).load(Ordering::Acquire) != self.received
    }

    fn wait(
        &self,
        deadline: Option<Instant>,
        process: Option<BorrowedFd<'_>>,
    ) -> Result<(), Silence> {
        if self.side == Side::Parent {
            let begin = Instant::now();
            while begin.elapsed() < LOOKING {
                if self.has_message() {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        loop {
            let sleeps = self.word(self.side.sleeps());
            sleeps.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.has_message() {
                sleeps.store(0, Ordering::Relaxed);
                return Ok(());
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let ended = self.sleep(left, process).map_err(Silence::System)?;
            if self.has_message() {
                return Ok(());
            }
            if ended {
                return Err(Silence::Ended);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Silence::Late);
            }
        }
    }

    /// Sleeps until the bell rings, the other process ends (returns true) or the time is up.
    fn sleep(&self, left: Option<Duration>, process: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        if process.is_none() && left.is_none() {
            // Nothing but the bell can end this: one system call instead of two.
            return match self.hear() {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
                _ => Ok(false),
            };
        }
        let bell = PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN);
        let other = process.map(|process| PollFd::from_borrowed_fd(process, PollFlags::IN));
        let mut both = [bell.clone(), other.clone().unwrap_or(bell)];
        let count = 1 + usize::from(other.is_some());
        let waited = both.get_mut(..count).unwrap_or_default();
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(waited, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if waited
            .first()
            .is_some_and(|bell| !bell.revents().is_empty())
        {
            self.hear()?;
        }
        Ok(waited
            .get(1)
            .is_some_and(|other| !other.revents().is_empty()))
    }

    /// Takes what was written to the bell; waits for it if there is nothing.
    fn hear(&self) -> io::Result<()> {
        let mut count = [0; 8];
        rustix::io::read(&self.bell, &mut count)?;
        Ok(())
    }

    /// Where `length` bytes at an offset of an arena are; none if it does not have them.
    pub(super) fn place(&self, arena: Arena, offset: u64, length: u64) -> Option<NonNull<u8>> {
        let size = self.arena_size();
        if offset.checked_add(length)? > size {
            return None;
        }
        let base = CONTROL + 2 * MESSAGE + if arena == Arena::Given { size } else { 0 };
        // SAFETY: within the mapping, by the check above.
        NonNull::new(unsafe { self.memory.as_ptr().add((base + offset) as usize) })
    }

    /// Size of each arena in bytes.
    fn arena_size(&self) -> u64 {
        (self.length as u64 - CONTROL - 2 * MESSAGE) / 2
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

/// Offsets in an arena, handed out one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bump(u64);

impl Bump {
    /// Forgets what was handed out.
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }

    /// The offset of the next `length` bytes.
    pub(super) fn take(&mut self, length: u64) -> Option<u64> {
        let offset = self.0;
        self.0 = offset
            .checked_add(length)?
            .checked_next_multiple_of(ALIGNMENT)?;
        Some(offset)
    }
}

/// Takes over a descriptor that this process has inherited, so that its own children don't.
///
/// # Safety
///
/// Nothing else in this process may own the descriptor.
///
/// # Errors
///
/// If there is no such descriptor.
pub(super) unsafe fn inherited(number: i32) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;

    // SAFETY: the caller owns it; a number that is not open is refused by the next call.
    let file = unsafe { File::from_raw_fd(number) };
    let copy = rustix::io::fcntl_dupfd_cloexec(&file, 3)?;
    Ok(copy)
}
