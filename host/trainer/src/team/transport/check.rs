//! A check of a transport: every call delivers the right bytes, and how long the important ones take.

use std::time::Instant;

use super::interface::{Transport, TransportError};

/// Bytes of a vote.
const VOTE: usize = 64;

/// Elements of the two sums that are timed: 256 KiB and 4 MiB.
const SUMS: [usize; 2] = [65_536, 1 << 20];

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckTimes {
    /// Seconds of a gather of 64 bytes.
    pub gather: f64,
    /// Number of elements and seconds of sums over all ranks, of `f32`.
    pub sums: [(usize, f64); 2],
}

/// Makes every call with known bytes, and measures a gather and two sums. All ranks must do it.
///
/// # Errors
///
/// If a call fails, or delivers other bytes than were sent.
pub fn check(transport: &mut dyn Transport) -> Result<CheckTimes, TransportError> {
    for scale in [0, 1, 100_003] {
        broadcast(transport, scale)?;
        gather(transport, scale)?;
        exchange(transport, scale)?;
        collect(transport, scale)?;
    }
    let all = &mut vec![0; VOTE * transport.size()];
    let gather = time(transport, 200, |transport| {
        transport.gather(&[1; VOTE], all)
    })?;
    let mut sums = [(0, 0.0); 2];
    for (slot, elements) in sums.iter_mut().zip(SUMS) {
        let mut buffers = SumBuffers::new(transport.size(), elements);
        let repeats = if elements < SUMS[1] { 50 } else { 10 };
        *slot = (
            elements,
            time(transport, repeats, |transport| buffers.sum(transport))?,
        );
    }
    Ok(CheckTimes { gather, sums })
}

/// The shortest of a number of calls, in seconds: what the transport takes when nothing disturbs it.
fn time(
    transport: &mut dyn Transport,
    repeats: usize,
    mut call: impl FnMut(&mut dyn Transport) -> Result<(), TransportError>,
) -> Result<f64, TransportError> {
    let mut shortest = f64::INFINITY;
    for _ in 0..repeats {
        let begin = Instant::now();
        call(transport)?;
        shortest = shortest.min(begin.elapsed().as_secs_f64());
    }
    Ok(shortest)
}

/// The bytes that `from` sends `to`: of uneven, sometimes no length, different for every pair.
fn message(from: usize, to: usize, scale: usize) -> impl Iterator<Item = u8> {
    let length = (from + 2 * to) % 4 * scale;
    (0..length).map(move |index| ((index * 7 + from * 31 + to * 101) % 251) as u8)
}

/// Joins parts, and returns their offsets.
fn joined<I: Iterator<Item = u8>>(parts: impl Iterator<Item = I>) -> (Vec<u8>, Vec<usize>) {
    let (mut data, mut at) = (Vec::new(), vec![0]);
    for part in parts {
        data.extend(part);
        at.push(data.len());
    }
    (data, at)
}

fn same(
    call: &str,
    transport: &dyn Transport,
    got: &[u8],
    right: &[u8],
) -> Result<(), TransportError> {
    if got == right {
        return Ok(());
    }
    let rank = transport.rank();
    let problem = format!("rank {rank}: {call} delivers other bytes than were sent");
    Err(TransportError::new(problem))
}

fn broadcast(transport: &mut dyn Transport, scale: usize) -> Result<(), TransportError> {
    for root in 0..transport.size() {
        let right: Vec<u8> = message(root, 1, scale).collect();
        let mut data = vec![0; right.len()];
        if transport.rank() == root {
            data.clone_from(&right);
        }
        transport.broadcast(&mut data, root)?;
        same("broadcast", transport, &data, &right)?;
    }
    Ok(())
}

fn gather(transport: &mut dyn Transport, scale: usize) -> Result<(), TransportError> {
    let own = |rank: usize| (0..scale).map(move |index| ((index + rank * 7) % 251) as u8);
    let (right, _) = joined((0..transport.size()).map(own));
    let mut all = vec![0; right.len()];
    let own: Vec<u8> = own(transport.rank()).collect();
    transport.gather(&own, &mut all)?;
    same("gather", transport, &all, &right)
}

fn exchange(transport: &mut dyn Transport, scale: usize) -> Result<(), TransportError> {
    let (rank, size) = (transport.rank(), transport.size());
    let (send, send_at) = joined((0..size).map(|to| message(rank, to, scale)));
    let (right, at) = joined((0..size).map(|from| message(from, rank, scale)));
    let mut receive = vec![0; right.len()];
    transport.exchange(&send, &send_at, &mut receive, &at)?;
    same("exchange", transport, &receive, &right)
}

fn collect(transport: &mut dyn Transport, scale: usize) -> Result<(), TransportError> {
    let (right, at) = joined((0..transport.size()).map(|from| message(from, 0, scale)));
    let mut data = vec![0; right.len()];
    let rank = transport.rank();
    let own = at
        .get(rank..)
        .and_then(|rest| Some(*rest.first()?..*rest.get(1)?));
    if let Some(own) = own
        && let (Some(data), Some(right)) = (data.get_mut(own.clone()), right.get(own))
    {
        data.copy_from_slice(right);
    }
    transport.collect(&mut data, &at)?;
    same("collect", transport, &data, &right)
}

/// A sum as training makes it: every rank adds its part of all ranks' elements, and all collect the parts.
struct SumBuffers {
    own: Vec<f32>,
    received: Vec<f32>,
    /// Offsets of all ranks' parts, in bytes.
    at: Vec<usize>,
}

impl SumBuffers {
    fn new(size: usize, elements: usize) -> SumBuffers {
        SumBuffers {
            own: vec![1.0; elements],
            received: vec![0.0; elements.div_ceil(size) * size],
            at: (0..=size)
                .map(|part| elements * part / size * size_of::<f32>())
                .collect(),
        }
    }

    fn sum(&mut self, transport: &mut dyn Transport) -> Result<(), TransportError> {
        let (from, to) = match self.at.get(transport.rank()..) {
            Some([from, to, ..]) => (*from, *to),
            _ => (0, 0),
        };
        let own: &mut [u8] = bytemuck::cast_slice_mut(&mut self.own);
        let received: &mut [u8] = bytemuck::cast_slice_mut(&mut self.received);
        let received_at: Vec<usize> = (0..=transport.size())
            .map(|part| part * (to - from))
            .collect();
        let end = received_at.last().copied().unwrap_or(0);
        let received = received.get_mut(..end).unwrap_or_default();
        transport.exchange(own, &self.at, received, &received_at)?;
        let count = (to - from) / size_of::<f32>();
        let sum = self
            .own
            .get_mut(from / size_of::<f32>()..)
            .unwrap_or_default();
        let mut parts = self.received.chunks_exact(count.max(1));
        if let (Some(sum), Some(first)) = (sum.get_mut(..count), parts.next()) {
            sum.copy_from_slice(first.get(..count).unwrap_or_default());
            for part in parts.take(transport.size() - 1) {
                sum.iter_mut()
                    .zip(part)
                    .for_each(|(sum, part)| *sum += part);
            }
        }
        transport.collect(bytemuck::cast_slice_mut(&mut self.own), &self.at)
    }
}
