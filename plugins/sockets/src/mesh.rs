//! The connections between all ranks, and the calls that use them.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sconce_plugin_api::transport::TransportFacts;
use sconce_plugin_api::{Context, HookError, Result, bail};

use crate::meeting::{Meeting, TOKEN_LENGTH};
use crate::network::Network;
use crate::transfer::{Fault, Incoming, Outgoing, transfer};

/// How often a rank that does not listen yet is tried.
const RETRY: Duration = Duration::from_millis(2);

/// Longest time that a connected process may take to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// Length of an introduction: rank, number of ranks, token.
const GREETING: usize = 16 + TOKEN_LENGTH;

/// A rank's connections with all others.
#[derive(Debug)]
pub(crate) struct Mesh {
    rank: usize,
    /// By rank; none for this one.
    connections: Vec<Option<UnixStream>>,
    host: String,
    timeout: Duration,
    network: Network,
    /// Number of the call under way.
    call: u64,
}

impl Mesh {
    /// Connects this rank with all others: it calls those below it, and is called by those above.
    ///
    /// # Errors
    ///
    /// If a rank does not appear within the timeout, or belongs to another run.
    pub(crate) fn connect(meeting: &Meeting, timeout: Duration) -> Result<Mesh> {
        let deadline = Instant::now().checked_add(timeout);
        let own = meeting.socket_of(meeting.rank);
        let listener = UnixListener::bind(&own).context(format_args!(
            "rank {} can't listen at {}",
            meeting.rank,
            own.display()
        ))?;
        listener.set_nonblocking(true)?;
        let mut connections: Vec<Option<UnixStream>> = Vec::new();
        connections.resize_with(meeting.size, || None);
        for (rank, slot) in connections.iter_mut().enumerate().take(meeting.rank) {
            *slot = Some(call(meeting, rank, deadline)?);
        }
        while let Some(missing) = missing(meeting, &connections) {
            let Some(left) = left(deadline) else {
                bail!(
                    "rank {missing} has not appeared within {} s",
                    timeout.as_secs_f64()
                );
            };
            if let Some((rank, connection)) = answer(meeting, &listener, left)?
                && let Some(slot) = connections.get_mut(rank)
            {
                *slot = Some(connection);
            }
        }
        for connection in connections.iter().flatten() {
            connection.set_nonblocking(true)?;
        }
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().into_owned();
        Ok(Mesh {
            rank: meeting.rank,
            connections,
            host,
            timeout,
            network: meeting.network,
            call: 0,
        })
    }

    /// All ranks are on this machine.
    pub(crate) fn facts(&self) -> TransportFacts {
        TransportFacts {
            rank: self.rank,
            size: self.size(),
            hosts: vec![self.host.clone(); self.size()],
            about: "Unix sockets".to_owned(),
        }
    }

    pub(crate) fn broadcast(&mut self, data: &mut [u8], root: usize) -> Result<()> {
        let others = (0..self.size()).filter(|rank| *rank != self.rank);
        if root == self.rank {
            let sends = others.map(|rank| (rank, &*data)).collect();
            self.pass(sends, Vec::new())
        } else {
            self.pass(Vec::new(), vec![(root, data)])
        }
    }

    pub(crate) fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<()> {
        if own.is_empty() {
            return Ok(());
        }
        let mut sends = Vec::new();
        let mut receives = Vec::new();
        for (rank, part) in all.chunks_exact_mut(own.len()).enumerate() {
            if rank == self.rank {
                part.copy_from_slice(own);
            } else {
                sends.push((rank, own));
                receives.push((rank, part));
            }
        }
        self.pass(sends, receives)
    }

    pub(crate) fn exchange(
        &mut self,
        send: &[u8],
        send_at: &[u64],
        receive: &mut [u8],
        receive_at: &[u64],
    ) -> Result<()> {
        let mut sends = parts(send, send_at);
        let mut receives = parts_mut(receive, receive_at);
        if let (Some((_, from)), Some((_, to))) =
            (sends.get(self.rank), receives.get_mut(self.rank))
        {
            if from.len() != to.len() {
                bail!("a rank's part for itself has two lengths");
            }
            to.copy_from_slice(from);
        }
        sends.retain(|(rank, _)| *rank != self.rank);
        receives.retain(|(rank, _)| *rank != self.rank);
        self.pass(sends, receives)
    }

    pub(crate) fn collect(&mut self, data: &mut [u8], at: &[u64]) -> Result<()> {
        let mut receives = parts_mut(data, at);
        if self.rank >= receives.len() {
            bail!("there are fewer parts than ranks");
        }
        let (_, own) = receives.remove(self.rank);
        let own: &[u8] = own;
        let others = (0..self.size()).filter(|rank| *rank != self.rank);
        let sends = others.map(|rank| (rank, own)).collect();
        self.pass(sends, receives)
    }

    /// Ends all connections, which the other ranks notice.
    pub(crate) fn close(&mut self) {
        for connection in self.connections.drain(..).flatten() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    fn size(&self) -> usize {
        self.connections.len().max(1)
    }

    /// Sends and receives parts, by rank; where there are no bytes there is no message.
    fn pass(
        &mut self,
        sends: Vec<(usize, &[u8])>,
        receives: Vec<(usize, &mut [u8])>,
    ) -> Result<()> {
        self.call += 1;
        let mut outgoing: Vec<Outgoing<'_>> = sends
            .into_iter()
            .filter(|(_, data)| !data.is_empty())
            .map(|(rank, data)| Outgoing::new(rank, self.call, data))
            .collect();
        let mut incoming: Vec<Incoming<'_>> = receives
            .into_iter()
            .filter(|(_, data)| !data.is_empty())
            .map(|(rank, data)| Incoming::new(rank, self.call, data))
            .collect();
        let duration = self.network.duration(
            outgoing.len(),
            outgoing.iter().map(Outgoing::length).sum(),
            incoming.iter().map(Incoming::length).sum(),
        );
        transfer(
            &self.connections,
            &mut outgoing,
            &mut incoming,
            self.timeout,
        )
        .map_err(|fault| self.describe(&fault))?;
        Network::wait(duration);
        Ok(())
    }

    fn describe(&self, fault: &Fault) -> HookError {
        let host = &self.host;
        HookError::new(match fault {
            Fault::Gone(rank) => format!("rank {rank} ({host}) is gone"),
            Fault::Late(rank) => format!(
                "rank {rank} ({host}) has kept this rank waiting for {} s",
                self.timeout.as_secs_f64()
            ),
            Fault::OutOfStep(rank) => {
                format!("rank {rank} ({host}) is at another point of the run")
            }
            Fault::System(error) => format!("the ranks can't talk: {error}"),
        })
    }
}

/// The parts of `data` between successive offsets, by rank.
fn parts<'a>(data: &'a [u8], at: &[u64]) -> Vec<(usize, &'a [u8])> {
    let mut rest = data;
    let mut parts = Vec::with_capacity(at.len());
    for (rank, length) in lengths(at).enumerate() {
        let (part, more) = rest.split_at(length.min(rest.len()));
        parts.push((rank, part));
        rest = more;
    }
    parts
}

/// As [`parts`], to be written.
fn parts_mut<'a>(data: &'a mut [u8], at: &[u64]) -> Vec<(usize, &'a mut [u8])> {
    let mut rest = data;
    let mut parts = Vec::with_capacity(at.len());
    for (rank, length) in lengths(at).enumerate() {
        let (part, more) = std::mem::take(&mut rest)
            .split_at_mut_checked(length)
            .unwrap_or_default();
        parts.push((rank, part));
        rest = more;
    }
    parts
}

fn lengths(at: &[u64]) -> impl Iterator<Item = usize> {
    at.windows(2).map(|pair| match pair {
        [from, to] => usize::try_from(to.saturating_sub(*from)).unwrap_or(usize::MAX),
        _ => 0,
    })
}

/// The first rank above this one that has not called yet.
fn missing(meeting: &Meeting, connections: &[Option<UnixStream>]) -> Option<usize> {
    let above = connections.iter().enumerate().skip(meeting.rank + 1);
    above
        .filter(|(_, slot)| slot.is_none())
        .map(|(rank, _)| rank)
        .next()
}

/// Time left until the deadline; none once it has passed.
fn left(deadline: Option<Instant>) -> Option<Duration> {
    match deadline {
        Some(deadline) => deadline.checked_duration_since(Instant::now()),
        None => Some(Duration::MAX),
    }
}

/// What a rank says when it is connected.
fn greeting(meeting: &Meeting) -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    let said = [
        &(meeting.rank as u64).to_le_bytes(),
        &(meeting.size as u64).to_le_bytes(),
        meeting.token.as_bytes(),
    ];
    for (slot, byte) in greeting.iter_mut().zip(said.concat()) {
        *slot = byte;
    }
    greeting
}

/// Connects with a rank that listens, now or soon.
fn call(meeting: &Meeting, rank: usize, deadline: Option<Instant>) -> Result<UnixStream> {
    let path = meeting.socket_of(rank);
    let mut connection = loop {
        match UnixStream::connect(&path) {
            Ok(connection) => break connection,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused
                ) =>
            {
                if left(deadline).is_none() {
                    bail!(
                        "rank {rank} has not appeared: nothing listens at {}",
                        path.display()
                    );
                }
                std::thread::sleep(RETRY);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => bail!(
                "rank {rank} can't be reached at {}: {error}",
                path.display()
            ),
        }
    };
    connection.set_read_timeout(left(deadline).filter(|left| !left.is_zero()))?;
    let mut answer = [0; GREETING];
    let introduced = connection
        .write_all(&greeting(meeting))
        .and_then(|()| connection.read_exact(&mut answer));
    introduced.context(format_args!(
        "rank {rank} refuses this one, which may belong to another run"
    ))?;
    match read_greeting(meeting, &answer) {
        Some(who) if who == rank => {
            connection.set_read_timeout(None)?;
            Ok(connection)
        }
        _ => bail!("what listens at {} is not rank {rank}", path.display()),
    }
}

/// The rank that a greeting is from, if it belongs to this run.
fn read_greeting(meeting: &Meeting, said: &[u8; GREETING]) -> Option<usize> {
    let rank = u64::from_le_bytes(*said.first_chunk()?);
    let rank = usize::try_from(rank)
        .ok()
        .filter(|rank| *rank < meeting.size)?;
    let expected = greeting(&Meeting {
        rank,
        ..meeting.clone()
    });
    (*said == expected).then_some(rank)
}

/// Accepts a rank above this one; none if nobody called for a while, or a stranger did.
fn answer(
    meeting: &Meeting,
    listener: &UnixListener,
    limit: Duration,
) -> Result<Option<(usize, UnixStream)>> {
    let mut files = [PollFd::new(listener, PollFlags::IN)];
    let limit = Timespec::try_from(limit).ok();
    match poll(&mut files, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => bail!("the other ranks can't be waited for: {error}"),
    }
    let mut connection = match listener.accept() {
        Ok((connection, _)) => connection,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            return Ok(None);
        }
        Err(error) => bail!("no rank can be accepted: {error}"),
    };
    connection.set_nonblocking(false)?;
    connection.set_read_timeout(Some(INTRODUCTION))?;
    let mut said = [0; GREETING];
    if connection.read_exact(&mut said).is_err() {
        return Ok(None);
    }
    match read_greeting(meeting, &said) {
        Some(rank) if rank > meeting.rank && connection.write_all(&greeting(meeting)).is_ok() => {
            connection.set_read_timeout(None)?;
            Ok(Some((rank, connection)))
        }
        // Dropped, which the other side notices.
        _ => Ok(None),
    }
}
