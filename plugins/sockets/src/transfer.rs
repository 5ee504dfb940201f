//! Messages on many connections at once.
//!
//! All sends and receives of a call progress together, whichever connection is ready: no rank waits for another to
//! receive while that one waits for it to do the same. Each message begins with the number of its call and its length,
//! so that ranks that are out of step are noticed.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes of a message before its data: the number of the call, and the length.
const HEADER: usize = 16;

/// How often the connections are tried before this rank sleeps until one is ready.
const TRIES: u32 = 64;

/// Why a transfer failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection to this rank has ended.
    Gone(usize),
    /// Nothing has come from this rank for the timeout, or nothing could be sent to it.
    Late(usize),
    /// This rank is at another call, or sends another length.
    OutOfStep(usize),
    /// The system refuses something.
    System(String),
}

/// A message to a rank.
pub(crate) struct Outgoing<'a> {
    rank: usize,
    header: [u8; HEADER],
    data: &'a [u8],
    done: usize,
}

/// A message from a rank.
pub(crate) struct Incoming<'a> {
    rank: usize,
    expected: [u8; HEADER],
    header: [u8; HEADER],
    data: &'a mut [u8],
    done: usize,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(rank: usize, call: u64, data: &'a [u8]) -> Outgoing<'a> {
        Outgoing {
            rank,
            header: header(call, data.len()),
            data,
            done: 0,
        }
    }

    /// Bytes of the message.
    pub(crate) fn length(&self) -> usize {
        self.data.len()
    }

    fn is_done(&self) -> bool {
        self.done == HEADER + self.data.len()
    }

    /// Sends what the connection takes; whether that was anything.
    fn progress(&mut self, mut connection: &UnixStream) -> Result<bool, Fault> {
        let mut has_sent = false;
        while !self.is_done() {
            let data_at = self.done.saturating_sub(HEADER);
            let rests = [
                IoSlice::new(self.header.get(self.done..).unwrap_or_default()),
                IoSlice::new(self.data.get(data_at..).unwrap_or_default()),
            ];
            match connection.write_vectored(&rests) {
                Ok(0) => return Err(Fault::Gone(self.rank)),
                Ok(count) => self.done += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => keep_on(&error, self.rank)?,
            }
            has_sent = true;
        }
        Ok(has_sent)
    }
}

impl<'a> Incoming<'a> {
    pub(crate) fn new(rank: usize, call: u64, data: &'a mut [u8]) -> Incoming<'a> {
        Incoming {
            rank,
            expected: header(call, data.len()),
            header: [0; HEADER],
            data,
            done: 0,
        }
    }

    /// Bytes of the message.
    pub(crate) fn length(&self) -> usize {
        self.data.len()
    }

    fn is_done(&self) -> bool {
        self.done == HEADER + self.data.len()
    }

    /// Receives what is there; whether that was anything.
    fn progress(&mut self, mut connection: &UnixStream) -> Result<bool, Fault> {
        let mut has_received = false;
        while !self.is_done() {
            let read = if self.done < HEADER {
                // The data is not written to before the header has been compared.
                connection.read(self.header.get_mut(self.done..).unwrap_or_default())
            } else {
                let rest = self.data.get_mut(self.done - HEADER..).unwrap_or_default();
                connection.read_vectored(&mut [IoSliceMut::new(rest)])
            };
            match read {
                Ok(0) => return Err(Fault::Gone(self.rank)),
                Ok(count) => self.done += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => keep_on(&error, self.rank)?,
            }
            has_received = true;
            if self.done == HEADER && self.header != self.expected {
                return Err(Fault::OutOfStep(self.rank));
            }
        }
        Ok(has_received)
    }
}

fn header(call: u64, length: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let (first, second) = header.split_at_mut(HEADER / 2);
    first.copy_from_slice(&call.to_le_bytes());
    second.copy_from_slice(&(length as u64).to_le_bytes());
    header
}

/// Whether to try again after an error; any other means that the rank is gone, or that the system refuses.
fn keep_on(error: &io::Error, rank: usize) -> Result<(), Fault> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected => {
            Err(Fault::Gone(rank))
        }
        _ => Err(Fault::System(error.to_string())),
    }
}

/// Sends and receives messages on the ranks' connections, at most one of each per rank, until all are done.
///
/// # Errors
///
/// As soon as a rank is gone, or nothing has moved for the timeout.
pub(crate) fn transfer(
    connections: &[Option<UnixStream>],
    outgoing: &mut [Outgoing<'_>],
    incoming: &mut [Incoming<'_>],
    timeout: Duration,
) -> Result<(), Fault> {
    let connection = |rank: usize| connections.get(rank).and_then(Option::as_ref);
    let mut moved = Instant::now();
    let mut idle = 0;
    loop {
        let mut has_moved = false;
        let mut waits_for = None;
        for message in outgoing.iter_mut().filter(|message| !message.is_done()) {
            let stream = connection(message.rank).ok_or(Fault::Gone(message.rank))?;
            has_moved |= message.progress(stream)?;
            if !message.is_done() {
                waits_for = Some(message.rank);
            }
        }
        for message in incoming.iter_mut().filter(|message| !message.is_done()) {
            let stream = connection(message.rank).ok_or(Fault::Gone(message.rank))?;
            has_moved |= message.progress(stream)?;
            if !message.is_done() {
                waits_for = Some(message.rank);
            }
        }
        let Some(rank) = waits_for else {
            return Ok(());
        };
        if has_moved {
            moved = Instant::now();
            idle = 0;
            continue;
        }
        idle += 1;
        if idle < TRIES {
            std::thread::yield_now();
            continue;
        }
        let rest = timeout.checked_sub(moved.elapsed());
        let rest = rest.ok_or(Fault::Late(rank))?;
        wait(connections, outgoing, incoming, rest)?;
    }
}

/// Sleeps until a message can progress, at most for `limit`.
fn wait(
    connections: &[Option<UnixStream>],
    outgoing: &[Outgoing<'_>],
    incoming: &[Incoming<'_>],
    limit: Duration,
) -> Result<(), Fault> {
    let mut files = Vec::new();
    for (rank, connection) in connections.iter().enumerate() {
        let mut flags = PollFlags::empty();
        let mut sends = outgoing.iter().filter(|message| !message.is_done());
        flags.set(PollFlags::OUT, sends.any(|message| message.rank == rank));
        let mut receives = incoming.iter().filter(|message| !message.is_done());
        flags.set(PollFlags::IN, receives.any(|message| message.rank == rank));
        if let Some(connection) = connection
            && !flags.is_empty()
        {
            files.push(PollFd::new(connection, flags));
        }
    }
    // A limit beyond what the system's type holds is none.
    let limit = Timespec::try_from(limit).ok();
    match poll(&mut files, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Fault::System(error.to_string())),
    }
}
