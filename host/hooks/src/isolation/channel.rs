//! Exchange of messages and tensors between a hook's process and this one, through shared memory.
//!
//! Each side writes to a file of its own, then counts up a word that the other waits for. Whoever waits first looks at
//! the word for a moment (the child, which shares the training's cores, only where a message has come soon before), then sets its
//! sleeping flag and waits for its bell, which the other side rings if it finds the flag set.
//!
//! **What the child can't do to the parent.** The memory is sealed: it can't become shorter, which would end whoever touches
//! what is gone, and the child can't write to what the parent sends. Bells are pipes, whose ends are open file descriptions of
//! their own: those of the parent never block, and the child, which shares none of them, can't change that. (An eventfd is one description for both: a child that fills it,
//! and takes back `O_NONBLOCK`, blocks whoever writes to it.) The parent always waits for the child's end as well.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::looking::{LOOKING, Looking};
use super::memory::{self, Mapping, SharedMemory, Word};

pub(super) use super::memory::Arena;

/// Tensors begin at multiples of this.
const ALIGNMENT: u64 = 128;

/// How long a process may take to end once its end of a bell is closed.
const CLOSING: Duration = Duration::from_secs(2);

/// Which process this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Parent,
    Child,
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

/// One end of the channel.
#[derive(Debug)]
pub(super) struct Channel {
    /// The file from the child, until both ends have mapped it.
    file: Option<OwnedFd>,
    memory: SharedMemory,
    side: Side,
    /// Read by this side, to which the other one writes to wake it.
    bell: OwnedFd,
    /// Written to by this side to wake the other one.
    other_bell: OwnedFd,
    /// The count of the last message received.
    received: u32,
    /// The child's: when to look at the word before it sleeps.
    looking: Looking,
}

// SAFETY: the memory is shared with another process anyway; within this one, only the owner of the value uses it.
unsafe impl Send for Channel {}

/// What the child's end is made of.
#[derive(Debug)]
pub(super) struct ChildEnd {
    memory: [OwnedFd; 2],
    bell: OwnedFd,
    other_bell: OwnedFd,
}

/// Number of the child's descriptors.
pub(super) const DESCRIPTORS: usize = 4;

impl ChildEnd {
    /// Descriptors for the child to inherit, in the order of [`Channel::of_child`].
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; DESCRIPTORS] {
        let [to_child, from_child] = &self.memory;
        [to_child, from_child, &self.bell, &self.other_bell].map(AsFd::as_fd)
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
        let (memory, files) = SharedMemory::new(limit)?;
        let (bell, of_child) = pipe_with(PipeFlags::CLOEXEC)?;
        let (bell_of_child, other_bell) = pipe_with(PipeFlags::CLOEXEC)?;
        for own in [&bell, &other_bell] {
            fcntl_setfl(own, fcntl_getfl(own)? | OFlags::NONBLOCK)?;
        }
        let [_, from_child] = &files;
        let channel = Channel {
            file: Some(from_child.try_clone()?),
            memory,
            side: Side::Parent,
            bell,
            other_bell,
            received: 0,
            looking: Looking::default(),
        };
        let child = ChildEnd {
            memory: files,
            bell: bell_of_child,
            other_bell: of_child,
        };
        Ok((channel, child))
    }

    /// The child's end: of the memory to it and from it, its bell and the parent's.
    ///
    /// # Errors
    ///
    /// If the memory can't be mapped.
    pub(super) fn of_child(
        [to_child, from_child, bell, other_bell]: [OwnedFd; DESCRIPTORS],
    ) -> io::Result<Channel> {
        Ok(Channel {
            // Nothing that is opened from now on can map it again.
            file: None,
            memory: SharedMemory::of_child(&[to_child, from_child])?,
            side: Side::Child,
            bell,
            other_bell,
            received: 0,
            looking: Looking::default(),
        })
    }

    /// Seals the memory from the child against new writable mappings: once both ends have mapped it.
    fn seal(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), |file| memory::seal(&file))
    }

    /// Size of the mappings in bytes.
    pub(super) fn size(&self) -> u64 {
        self.memory.size()
    }

    /// Where `length` bytes at an offset of an arena are; none if it does not have them.
    pub(super) fn place(&self, arena: Arena, offset: u64, length: u64) -> Option<NonNull<u8>> {
        self.memory.place(arena, offset, length)
    }

    /// Makes sure that a place can be read, before anything depends on all of it.
    pub(super) fn touch(&self, arena: Arena, offset: u64, length: u64) {
        /// Smallest size of a page.
        const STEP: usize = 4096;
        let Some(place) = self.place(arena, offset, length) else {
            return;
        };
        let length = length as usize;
        for offset in (0..length).step_by(STEP).chain(length.checked_sub(1)) {
            // SAFETY: within the place, which is mapped; a page that is gone is replaced.
            let _ = unsafe { place.as_ptr().add(offset).read_volatile() };
        }
    }

    /// Checks that no page was gone that this process has touched: what it has read may be wrong, and the other process may
    /// not see what it has written.
    ///
    /// # Errors
    ///
    /// If one was.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.memory.is_broken() {
            return Err(io::Error::other(
                "memory that it shares with the host is no longer there",
            ));
        }
        Ok(())
    }

    /// What this side writes.
    fn outgoing(&self) -> &Mapping {
        match self.side {
            Side::Parent => &self.memory.to_child,
            Side::Child => &self.memory.from_child,
        }
    }

    /// What the other side writes, and this one reads.
    fn incoming(&self) -> &Mapping {
        match self.side {
            Side::Parent => &self.memory.from_child,
            Side::Child => &self.memory.to_child,
        }
    }

    /// Sends a message; the other side must be waiting for one.
    ///
    /// # Errors
    ///
    /// If the message is too long.
    pub(super) fn send(&self, message: &[u8]) -> io::Result<()> {
        let room = self.memory.layout.message;
        if message.len() as u64 > room {
            let length = message.len();
            return Err(io::Error::other(format!(
                "{length} bytes are more than a message between the processes can have ({room})"
            )));
        }
        let outgoing = self.outgoing();
        // SAFETY: the area has room for the message, is not in the memory of `message`, and is not read by the other side
        // before the word is counted up.
        unsafe {
            let area = outgoing.message();
            area.copy_from_nonoverlapping(message.as_ptr(), message.len());
        }
        let length = message.len() as u64;
        outgoing.message_length().store(length, Ordering::Relaxed);
        outgoing.word(Word::Count).fetch_add(1, Ordering::Release);
        // The other side sets its flag, then looks at the word: one of the two sees what the other wrote.
        fence(Ordering::SeqCst);
        if self.incoming().word(Word::Sleeps).load(Ordering::Relaxed) != 0 {
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
        let incoming = self.incoming();
        let length = incoming.message_length().load(Ordering::Relaxed);
        if length > self.memory.layout.message {
            let error = io::Error::other("a message's length is out of range");
            return Err(Silence::System(error));
        }
        message.clear();
        message.reserve(length as usize);
        // SAFETY: the area has this many bytes, and so has the vector; the copy is what is looked at, whatever the other
        // process writes there meanwhile.
        unsafe {
            let area = incoming.message();
            area.copy_to_nonoverlapping(message.as_mut_ptr(), length as usize);
            message.set_len(length as usize);
        }
        self.received = incoming.word(Word::Count).load(Ordering::Relaxed);
        self.check().map_err(Silence::System)
    }

    /// Whether a message is there, which can be read then. The load is a relaxed one, since the word may be in memory that
    /// this process can't write to.
    fn has_message(&self) -> bool {
        let count = self.incoming().word(Word::Count).load(Ordering::Relaxed);
        let is_there = count != self.received;
        if is_there {
            fence(Ordering::Acquire);
        }
        is_there
    }

    fn wait(
        &mut self,
        deadline: Option<Instant>,
        process: Option<BorrowedFd<'_>>,
    ) -> Result<(), Silence> {
        let begin = Instant::now();
        let looks = self.side == Side::Parent || self.looking.pays();
        if !(looks && self.look(begin)) {
            self.sleep_until_message(deadline, process)?;
        }
        if self.side == Side::Child {
            self.looking.note(begin.elapsed());
        }
        Ok(())
    }

    /// Looks at the word for [`LOOKING`]; returns whether a message is there.
    fn look(&self, begin: Instant) -> bool {
        while begin.elapsed() < LOOKING {
            if self.has_message() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Sleeps until a message is there, with the flag set.
    fn sleep_until_message(
        &self,
        deadline: Option<Instant>,
        process: Option<BorrowedFd<'_>>,
    ) -> Result<(), Silence> {
        let sleeps = self.outgoing().word(Word::Sleeps);
        sleeps.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let waited = self.wait_for_bell(deadline, process);
        sleeps.store(0, Ordering::Relaxed);
        waited
    }

    /// Waits for a message while the flag is set.
    fn wait_for_bell(
        &self,
        deadline: Option<Instant>,
        process: Option<BorrowedFd<'_>>,
    ) -> Result<(), Silence> {
        while !self.has_message() {
            // Whoever can't see the other side's words would wait for ever.
            self.check().map_err(Silence::System)?;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let ended = self.sleep(left, process).map_err(Silence::System)?;
            if self.has_message() {
                break;
            }
            if ended {
                return Err(Silence::Ended);
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Silence::Late);
            }
        }
        Ok(())
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
    use rustix::fs::{SealFlags, fcntl_add_seals};

    use super::super::memory::LEAST;
    use super::*;

    /// Both ends in one process, and the file from the child.
    fn ends(limit: Option<u64>) -> (Channel, Channel, OwnedFd) {
        let (parent, child) = Channel::new(limit).expect("memory");
        let ChildEnd {
            memory: [to_child, from_child],
            bell,
            other_bell,
        } = child;
        let kept = from_child.try_clone().expect("a descriptor");
        let child = [to_child, from_child, bell, other_bell];
        (parent, Channel::of_child(child).expect("memory"), kept)
    }

    fn can_be_mapped(file: &OwnedFd) -> bool {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let nowhere = std::ptr::null_mut();
        // SAFETY: a new mapping, which is left behind.
        unsafe { mmap(nowhere, 1, ProtFlags::WRITE, MapFlags::SHARED, file, 0) }.is_ok()
    }

    #[test]
    fn messages_arrive_and_the_memory_is_mapped_by_the_two_ends_alone() {
        let (mut parent, mut child, memory) = ends(None);
        assert!(
            can_be_mapped(&memory),
            "not sealed until both ends have mapped it"
        );
        let mut message = Vec::new();
        parent.send(b"an order").expect("sent");
        child.receive(&mut message, None, None).expect("there");
        assert_eq!(message, b"an order");
        child.send(b"an answer").expect("sent");
        parent.receive(&mut message, None, None).expect("there");
        assert_eq!(message, b"an answer");
        assert!(!can_be_mapped(&memory));
        let more = fcntl_add_seals(&memory, SealFlags::WRITE);
        assert_eq!(more, Err(Errno::PERM));
        // What is mapped stays so.
        parent.send(b"another").expect("sent");
        child.receive(&mut message, None, None).expect("there");
        assert_eq!(message, b"another");
    }

    #[test]
    fn a_message_has_as_many_bytes_as_there_is_room_for() {
        for limit in [LEAST, 32 << 20, u64::MAX] {
            let (parent, mut child, _memory) = ends(Some(limit));
            let longest = usize::try_from(parent.memory.layout.message).expect("its length");
            let message = vec![7; longest.min(1 << 20)];
            parent.send(&message).expect("sent");
            let mut received = Vec::new();
            child.receive(&mut received, None, None).expect("there");
            assert_eq!(received, message);
            if longest <= 1 << 20 {
                assert!(parent.send(&vec![0; longest + 1]).is_err());
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
        child
            .outgoing()
            .word(Word::Sleeps)
            .store(1, Ordering::SeqCst);
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
