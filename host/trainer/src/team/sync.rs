//! The ranks of a run, and how they synchronise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::header::{self, Header, Purpose};
use super::meeting;
use super::{TeamError, Transport, TransportError};
use crate::exit;

/// The ranks of a run. Clones are the same team.
#[derive(Clone, Debug)]
pub struct Team {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    rank: usize,
    size: usize,
    hosts: Vec<String>,
    transport: Mutex<Box<dyn Transport>>,
    /// Whether no bytes can be moved any more.
    is_broken: AtomicBool,
    /// Whether this rank's training batch repeats one of the first rank's.
    is_repeated: AtomicBool,
}

/// What all ranks have said in a synchronisation.
#[derive(Debug)]
pub struct Heard {
    /// Flags of each rank.
    pub flags: Vec<u16>,
    /// A number of each rank.
    pub numbers: Vec<u64>,
    bytes: Vec<u8>,
    /// Where each rank's bytes begin and end.
    at: Vec<usize>,
}

impl Heard {
    /// The bytes of a rank.
    pub fn of(&self, rank: usize) -> &[u8] {
        let begin = self.at.get(rank).copied().unwrap_or_default();
        let end = self.at.get(rank + 1).copied().unwrap_or_default();
        self.bytes.get(begin..end).unwrap_or_default()
    }

    /// Whether a rank has said anything.
    pub fn has_words(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// The ranks whose numbers differ from the first rank's.
    pub fn different(&self) -> impl Iterator<Item = usize> {
        let first = self.numbers.first().copied();
        let numbers = self.numbers.iter().enumerate();
        numbers.filter_map(move |(rank, number)| (Some(*number) != first).then_some(rank))
    }
}

/// What a rank says in a synchronisation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// What must be equal on all ranks.
    pub mark: u64,
    /// Flags, which every rank learns.
    pub flags: u16,
    /// A number, which every rank learns.
    pub number: u64,
    /// Bytes, of any length.
    pub bytes: &'a [u8],
}

/// The error of a rank, for the others.
#[derive(Debug, Serialize, Deserialize)]
struct Failed {
    code: u8,
    message: String,
}

impl Team {
    /// The ranks that `transport` connects.
    pub fn new(transport: Box<dyn Transport>) -> Team {
        let rank = transport.rank();
        let hosts = transport.hosts().to_vec();
        Team {
            shared: Arc::new(Shared {
                rank,
                size: transport.size(),
                hosts,
                transport: Mutex::new(transport),
                is_broken: AtomicBool::new(false),
                is_repeated: AtomicBool::new(false),
            }),
        }
    }

    /// Number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.shared.rank
    }

    /// Number of processes.
    pub fn size(&self) -> usize {
        self.shared.size
    }

    /// Whether this process writes what the run leaves behind.
    pub fn is_first(&self) -> bool {
        self.shared.rank == 0
    }

    /// The machine that a rank runs on.
    pub fn host(&self, rank: usize) -> &str {
        self.shared.hosts.get(rank).map_or("", String::as_str)
    }

    /// A rank, for messages: `rank 2 (node7)`.
    pub fn name_of(&self, rank: usize) -> String {
        format!("rank {rank} ({})", self.host(rank))
    }

    /// Number of machines.
    pub fn machines(&self) -> usize {
        let mut hosts: Vec<&String> = self.shared.hosts.iter().collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.len()
    }

    /// Number of ranks on this machine.
    pub fn neighbours(&self) -> usize {
        let own = self.host(self.rank());
        self.shared.hosts.iter().filter(|host| *host == own).count()
    }

    /// Name of the transport, with its version.
    pub fn transport_name(&self) -> String {
        self.transport().name().to_owned()
    }

    /// SHA-256 of the transport's plugin.
    pub fn transport_hash(&self) -> String {
        self.transport().file_hash().to_owned()
    }

    /// Whether no bytes can be moved any more.
    pub fn is_broken(&self) -> bool {
        self.shared.is_broken.load(Ordering::Relaxed)
    }

    /// Moves no more bytes, since the others wait for this rank where they can't be told that it has failed. They learn it from
    /// the end of this process.
    pub(super) fn give_up(&self) {
        self.shared.is_broken.store(true, Ordering::Relaxed);
    }

    /// Whether this rank's training batch repeats one of the first rank's.
    pub fn is_repeated(&self) -> bool {
        self.shared.is_repeated.load(Ordering::Relaxed)
    }

    /// Sets whether this rank's training batch repeats one of the first rank's.
    pub fn set_repeated(&self, is_repeated: bool) {
        self.shared
            .is_repeated
            .store(is_repeated, Ordering::Relaxed);
    }

    /// Says something, and hears what every rank says for the same purpose.
    ///
    /// # Errors
    ///
    /// If a rank has failed, is at another place, or is gone.
    pub fn hear(&self, purpose: Purpose, said: Said<'_>) -> Result<Heard, TeamError> {
        let header = Header {
            purpose,
            flags: said.flags,
            length: said.bytes.len() as u64,
            mark: said.mark,
            number: said.number,
        };
        self.moving(|transport| {
            let headers = gather_headers(transport, header)?;
            let heard = collect_words(transport, &headers, said.bytes)?;
            Ok((headers, heard))
        })
        .and_then(|(headers, heard)| self.judge(&headers, heard))
    }

    /// Tells the other ranks that this one has failed. They learn it at their next synchronisation. Returns whether the
    /// first rank fails at the same time, with the same message.
    pub fn fail(&self, code: u8, message: &str) -> bool {
        if self.is_broken() {
            return false;
        }
        let failed = Failed {
            code,
            message: message.to_owned(),
        };
        let bytes = postcard::to_allocvec(&failed).unwrap_or_default();
        let header = Header {
            purpose: Purpose::Failure,
            flags: 0,
            length: bytes.len() as u64,
            mark: 0,
            number: 0,
        };
        let heard = self.moving(|transport| {
            let headers = gather_headers(transport, header)?;
            collect_words(transport, &headers, &bytes)
        });
        // If they can't be told, they are gone or will notice that this one is.
        heard.is_ok_and(|heard| heard.of(0) == bytes)
    }

    /// Copies bytes of the first rank to all others; `own` is called there alone.
    ///
    /// # Errors
    ///
    /// If a rank has failed or is gone.
    pub fn from_first(&self, own: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, TeamError> {
        let bytes = if self.is_first() { own() } else { Vec::new() };
        let length = bytes.len() as u64;
        let said = Said {
            number: length,
            ..Said::default()
        };
        let heard = self.hear(Purpose::First, said)?;
        let length = heard.numbers.first().copied().unwrap_or_default();
        let mut data = bytes;
        let missing = (usize::try_from(length).unwrap_or(usize::MAX)).saturating_sub(data.len());
        data.try_reserve(missing)
            .map_err(|error| TeamError::Apart(format!("{length} bytes of rank 0: {error}")))?;
        data.resize(data.len() + missing, 0);
        self.moving(|transport| transport.broadcast(&mut data, 0))?;
        Ok(data)
    }

    /// As [`Transport::exchange`].
    pub(super) fn exchange(
        &self,
        send: &[u8],
        send_at: &[usize],
        receive: &mut [u8],
        receive_at: &[usize],
    ) -> Result<(), TeamError> {
        self.moving(|transport| transport.exchange(send, send_at, receive, receive_at))
    }

    /// As [`Transport::collect`].
    pub(super) fn collect(&self, data: &mut [u8], at: &[usize]) -> Result<(), TeamError> {
        self.moving(|transport| transport.collect(data, at))
    }

    fn transport(&self) -> MutexGuard<'_, Box<dyn Transport>> {
        let transport = self.shared.transport.lock();
        transport.unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves bytes.
    fn moving<T>(
        &self,
        work: impl FnOnce(&mut dyn Transport) -> Result<T, TransportError>,
    ) -> Result<T, TeamError> {
        let mut transport = self.transport();
        let moved = work(transport.as_mut());
        if let Err(error) = &moved {
            self.shared.is_broken.store(true, Ordering::Relaxed);
            meeting::note_loss(error.is_late);
        }
        Ok(moved?)
    }

    /// Whether all ranks are at the same place.
    fn judge(&self, headers: &[Header], heard: Heard) -> Result<Heard, TeamError> {
        let is_failure = |header: &Header| header.purpose == Purpose::Failure;
        if let Some(rank) = headers.iter().position(is_failure) {
            let failed = postcard::from_bytes(heard.of(rank)).unwrap_or(Failed {
                code: exit::TRAINING,
                message: "it failed without a message".to_owned(),
            });
            return Err(TeamError::Rank {
                rank,
                host: self.host(rank).to_owned(),
                code: failed.code,
                message: failed.message,
            });
        }
        let place = |header: &Header| (header.purpose, header.mark);
        let own = headers.get(self.rank());
        let other = headers
            .iter()
            .position(|header| Some(place(header)) != own.map(place));
        let (Some(other), Some(own)) = (other, own) else {
            return Ok(heard);
        };
        let there = headers
            .get(other)
            .map_or("elsewhere", |header| header.purpose.doing());
        Err(TeamError::Apart(format!(
            "{} is {there} while {} is {}: hooks that do different things on different ranks have led them apart",
            self.name_of(other),
            self.name_of(self.rank()),
            own.purpose.doing(),
        )))
    }
}

fn gather_headers(
    transport: &mut dyn Transport,
    own: Header,
) -> Result<Vec<Header>, TransportError> {
    let mut all = vec![0; header::SIZE * transport.size()];
    transport.gather(&own.bytes(), &mut all)?;
    let headers = all
        .as_chunks::<{ header::SIZE }>()
        .0
        .iter()
        .map(Header::read);
    headers
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| TransportError::new("a rank has sent something else than a header"))
}

fn collect_words(
    transport: &mut dyn Transport,
    headers: &[Header],
    own: &[u8],
) -> Result<Heard, TransportError> {
    let mut at = vec![0_usize];
    let mut end = 0_usize;
    for header in headers {
        let length = usize::try_from(header.length).ok();
        end = (length.and_then(|length| end.checked_add(length)))
            .ok_or_else(|| TransportError::new("a rank has too much to say"))?;
        at.push(end);
    }
    let mut bytes = vec![0; end];
    if end > 0 {
        let begin = at.get(transport.rank()).copied().unwrap_or_default();
        if let Some(place) = bytes
            .get_mut(begin..)
            .and_then(|rest| rest.get_mut(..own.len()))
        {
            place.copy_from_slice(own);
        }
        transport.collect(&mut bytes, &at)?;
    }
    Ok(Heard {
        flags: headers.iter().map(|header| header.flags).collect(),
        numbers: headers.iter().map(|header| header.number).collect(),
        bytes,
        at,
    })
}
