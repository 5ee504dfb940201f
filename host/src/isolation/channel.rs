//! Shared memory through which a hook's process and this one exchange messages and tensors.
//!
//! Each side writes to an area of its own, then counts up a word that the other waits for. Whoever waits first looks at
//! the word for a moment (the parent only: the child shares the training's cores), then sets its sleeping flag and waits
//! for its bell, which the other side rings if it finds the flag set.
//!
//! **What the child can't do to the parent.** The memory is sealed: it can't become shorter, which would end whoever touches
//! what is gone. Bells are pipes, whose ends are open file descriptions of their own: those of the parent never block, and
//! the child, which shares none of them, can't change that. (An eventfd is one description for both: a child that fills it,
//! and takes back `O_NONBLOCK`, blocks whoever writes to it.) The parent always waits for the child's end as well.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_getfl, fcntl_setfl, fstat, ftruncate,
    memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::pipe::{PipeFlags, pipe_with};

/// Size of the page with the words, in bytes.
const CONTROL: u64 = 4096;

/// Most room for a message in each direction, in bytes. Only what is written takes memory.
const MESSAGE: u64 = 256 << 20;

/// Least memory in bytes, where the hook's is limited.
const LEAST: u64 = 1 << 20;

/// Room for tensors, in bytes: the most that is tried, and the least that is accepted where address space is limited.
const MOST_TENSORS: u64 = 64 << 30;
const LEAST_TENSORS: u64 = 64 << 20;

/// Tensors begin at multiples of this.
const ALIGNMENT: u64 = 128;

/// How long a process may take to end once its end of a bell is closed.
const CLOSING: Duration = Duration::from_secs(2);

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
    /// The memory's file, until both ends have mapped it.
    file: Option<OwnedFd>,
    memory: NonNull<u8>,
    length: usize,
    side: Side,
    /// Read by this side, to which the other one writes to wake it.
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

    fn other(self) -> Side {
        match self {
            Side::Parent => Side::Child,
            Side::Child => Side::Parent,
        }
    }
}

/// What the child's end is made of.
#[derive(Debug)]
pub(super) struct ChildEnd {
    memory: OwnedFd,
    bell: OwnedFd,
    other_bell: OwnedFd,
}

impl ChildEnd {
    /// Descriptors for the child to inherit, in the order of [`Channel::of_child`].
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [&self.memory, &self.bell, &self.other_bell].map(AsFd::as_fd)
    }
}

impl Channel {
    /// Creates the memory and returns the parent's end, and what the child's is made of. `limit` is the most memory that the
    /// child may fill, in bytes, if that is limited.
    ///
    /// # Errors
    ///
    /// If the system refuses memory or descriptors.
    pub(super) fn new(limit: Option<u64>) -> io::Result<(Channel, ChildEnd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("sconce-hook", flags)?;
        let (bell, of_child) = pipe_with(PipeFlags::CLOEXEC)?;
        let (bell_of_child, other_bell) = pipe_with(PipeFlags::CLOEXEC)?;
        for own in [&bell, &other_bell] {
            fcntl_setfl(own, fcntl_getfl(own)? | OFlags::NONBLOCK)?;
        }
        let mut tensors = MOST_TENSORS;
        let (memory, length) = loop {
            let all = CONTROL + 2 * MESSAGE + 2 * tensors;
            let most = limit.map_or(all, |limit| limit.clamp(LEAST, all));
            ftruncate(&file, most)?;
            match map(&file) {
                Err(_) if tensors > LEAST_TENSORS => tensors /= 4,
                mapped => break mapped?,
            }
        };
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let child = ChildEnd {
            memory: file.try_clone()?,
            bell: bell_of_child,
            other_bell: of_child,
        };
        let channel = Channel {
            file: Some(file),
            memory,
            length,
            side: Side::Parent,
            bell,
            other_bell,
            received: 0,
        };
        Ok((channel, child))
    }

    /// The child's end: of the memory, its bell and the parent's.
    ///
    /// # Errors
    ///
    /// If the memory can't be mapped.
    pub(super) fn of_child([file, bell, other_bell]: [OwnedFd; 3]) -> io::Result<Channel> {
        let (memory, length) = map(&file)?;
        Ok(Channel {
            // Nothing that is opened from now on can map it again.
            file: None,
            memory,
            length,
            side: Side::Child,
            bell,
            other_bell,
            received: 0,
        })
    }

    /// Seals the memory against new writable mappings, and the seals against more of them: once both ends have mapped it.
    fn seal(&mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        match fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SEAL) {
            // Linux before 5.1 has no such seal.
            Err(Errno::INVAL) => Ok(fcntl_add_seals(&file, SealFlags::SEAL)?),
            sealed => Ok(sealed?),
        }
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
        let room = self.message_size();
        if message.len() as u64 > room {
            let length = message.len();
            return Err(io::Error::other(format!(
                "{length} bytes are more than a message between the processes can have ({room})"
            )));
        }
        // SAFETY: the area has room for the message, is not in the memory of `message`, and is not read by the other side
        // before the word is counted up.
        unsafe {
            let area = self.memory.as_ptr().add(self.inbox(to) as usize);
            area.copy_from_nonoverlapping(message.as_ptr(), message.len());
        }
        let length = message.len() as u64;
        self.length_word(to).store(length, Ordering::Relaxed);
        self.word(to.count()).fetch_add(1, Ordering::Release);
        // The other side sets its flag, then looks at the word: one of the two sees what the other wrote.
        fence(Ordering::SeqCst);
        if self.word(to.sleeps()).swap(0, Ordering::Relaxed) != 0 {
            match rustix::io::write(&self.other_bell, &[1]) {
                // It is rung already, or the other process has ended, which the wait for its answer finds out.
                Ok(_) | Err(Errno::AGAIN | Errno::PIPE) => {}
                Err(error) => return Err(error.into()),
            }
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
        self.seal().map_err(Silence::System)?;
        self.received = self.word(self.side.count()).load(Ordering::Acquire);
        let length = self.length_word(self.side).load(Ordering::Relaxed);
        if length > self.message_size() {
            let error = io::Error::other("a message's length is out of range");
            return Err(Silence::System(error));
        }
        message.clear();
        message.reserve(length as usize);
        // SAFETY: the area has this many bytes, and so has the vector; the copy is what is looked at, whatever the other
        // process writes there meanwhile.
        unsafe {
            let area = self.memory.as_ptr().add(self.inbox(self.side) as usize);
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
            return if self.hear()? {
                Ok(false)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
        let bell = PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN);
        let other = process.map(|process| PollFd::from_borrowed_fd(process, PollFlags::IN));
        let mut both = [bell.clone(), other.clone().unwrap_or(bell)];
        let count = 1 + usize::from(other.is_some());
        let waited = both.get_mut(..count).unwrap_or_default();
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(waited, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready =
            |polled: Option<&PollFd<'_>>| polled.is_some_and(|polled| !polled.revents().is_empty());
        let has_ended = is_ready(waited.get(1));
        if !has_ended && is_ready(waited.first()) && !self.hear()? {
            return match process {
                // Descriptors are closed a moment before a process has ended.
                Some(process) if ends_within(process, CLOSING)? => Ok(true),
                _ => Err(io::Error::other("it has closed its end of the channel")),
            };
        }
        Ok(has_ended)
    }

    /// Takes what was written to the bell; a blocking one waits for it if there is nothing. Returns whether the other side
    /// can still ring it.
    fn hear(&self) -> io::Result<bool> {
        match rustix::io::read(&self.bell, &mut [0; 64]) {
            Ok(count) => Ok(count > 0),
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Where `length` bytes at an offset of an arena are; none if it does not have them.
    pub(super) fn place(&self, arena: Arena, offset: u64, length: u64) -> Option<NonNull<u8>> {
        let size = self.arena_size();
        if offset.checked_add(length)? > size {
            return None;
        }
        let base = CONTROL + 2 * self.message_size() + if arena == Arena::Given { size } else { 0 };
        // SAFETY: within the mapping, by the check above.
        NonNull::new(unsafe { self.memory.as_ptr().add((base + offset) as usize) })
    }

    /// Size of each arena in bytes.
    fn arena_size(&self) -> u64 {
        let left = self.length as u64 - CONTROL - 2 * self.message_size();
        left / 2 / ALIGNMENT * ALIGNMENT
    }

    /// Size of the area for messages in each direction, in bytes.
    fn message_size(&self) -> u64 {
        let share = self.length as u64 / 8;
        share.min(MESSAGE) / CONTROL * CONTROL
    }

    /// Offset of the area with a side's incoming messages.
    fn inbox(&self, side: Side) -> u64 {
        match side {
            Side::Parent => CONTROL,
            Side::Child => CONTROL + self.message_size(),
        }
    }
}

/// Maps the shared memory, and returns its size in bytes, too.
fn map(file: &OwnedFd) -> io::Result<(NonNull<u8>, usize)> {
    let all = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
    let length = usize::try_from(all).map_err(io::Error::other)?;
    if all < LEAST {
        return Err(io::Error::other("the shared memory is too small"));
    }
    // SAFETY: a new mapping, at an address that the system chooses.
    let memory = unsafe {
        mmap(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::NORESERVE,
            file,
            0,
        )
    }?;
    let memory = NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("no memory"))?;
    Ok((memory, length))
}

/// Whether a process ends within this time.
fn ends_within(process: BorrowedFd<'_>, time: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + time;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut waited = [PollFd::from_borrowed_fd(process, PollFlags::IN)];
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut waited, Some(&left)) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends in one process.
    fn ends(limit: Option<u64>) -> (Channel, Channel, OwnedFd) {
        let (parent, child) = Channel::new(limit).expect("memory");
        let ChildEnd {
            memory,
            bell,
            other_bell,
        } = child;
        let kept = memory.try_clone().expect("a descriptor");
        let child = Channel::of_child([memory, bell, other_bell]).expect("memory");
        (parent, child, kept)
    }

    #[test]
    fn the_memory_keeps_its_size_and_is_mapped_by_the_two_ends_alone() {
        let (mut parent, mut child, memory) = ends(None);
        let size = parent.size();
        for size in [0, size - 1, size + 1] {
            assert_eq!(ftruncate(&memory, size), Err(Errno::PERM), "{size}");
        }
        map(&memory).expect("not sealed until both ends have mapped it");
        let mut message = Vec::new();
        parent.send(b"an order").expect("sent");
        child.receive(&mut message, None, None).expect("there");
        assert_eq!(message, b"an order");
        child.send(b"an answer").expect("sent");
        parent.receive(&mut message, None, None).expect("there");
        assert_eq!(message, b"an answer");
        let again = map(&memory).expect_err("sealed");
        assert_eq!(again.kind(), io::ErrorKind::PermissionDenied);
        let more = fcntl_add_seals(&memory, SealFlags::WRITE);
        assert_eq!(more, Err(Errno::PERM));
        // What is mapped stays so.
        parent.send(b"another").expect("sent");
        child.receive(&mut message, None, None).expect("there");
        assert_eq!(message, b"another");
    }

    #[test]
    fn limited_memory_has_room_for_messages_and_tensors_within_its_limit() {
        for limit in [0, LEAST, 32 << 20, 10 << 30, u64::MAX] {
            let (parent, mut child, _memory) = ends(Some(limit));
            assert!(parent.size() <= limit.max(LEAST), "{limit}");
            let longest = parent.message_size();
            let message = vec![7; usize::try_from(longest.min(1 << 20)).expect("small")];
            parent.send(&message).expect("sent");
            let mut received = Vec::new();
            child.receive(&mut received, None, None).expect("there");
            assert_eq!(received, message);
            if longest <= 1 << 20 {
                assert!(parent.send(&vec![0; message.len() + 1]).is_err());
            }
            let size = parent.arena_size();
            assert!(size >= parent.size() / 4, "{size}");
            for arena in [Arena::Lent, Arena::Given] {
                let place = parent.place(arena, size - 8, 8).expect("room");
                // SAFETY: 8 bytes of the mapping, which nothing else uses.
                unsafe { place.as_ptr().write_bytes(1, 8) };
                assert!(parent.place(arena, size - 8, 9).is_none());
                let begin = parent.memory.as_ptr() as usize;
                assert!(place.as_ptr() as usize + 8 <= begin + parent.length);
            }
        }
    }

    #[test]
    fn a_full_bell_does_not_stop_whoever_rings_it_and_a_closed_one_ends_the_wait() {
        let (mut parent, child, _memory) = ends(None);
        // The child takes back what it can of its own ends: they are other descriptions.
        for end in [&child.bell, &child.other_bell] {
            fcntl_setfl(end, OFlags::empty()).expect("its own");
        }
        while rustix::io::write(&parent.other_bell, &[1; 4096]).is_ok() {}
        child.word(Word::ChildSleeps).store(1, Ordering::SeqCst);
        parent
            .send(b"an order")
            .expect("sent, though the bell is full");
        drop(child);
        let mut message = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(600);
        let silence = parent.receive(&mut message, Some(deadline), None);
        assert!(matches!(silence, Err(Silence::System(_))), "{silence:?}");
        parent
            .send(b"to a process that has ended")
            .expect("its end is noticed by whoever waits");
    }
}
