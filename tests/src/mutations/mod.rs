//! Damaged inputs: the host must read any bytes from outside without crashing, and must never
//! accept a damaged checkpoint as intact.
//!
//! The same subjects are used by the fuzzers in `tests/fuzz`, by the program `mutate` and, with
//! fewer inputs, by a test.

mod json;
mod mutate;
mod states;
mod subject;

pub use mutate::mutated;
pub use states::{HOOKS, replace};
pub use subject::{Bench, Subject};

use sconce::random::{self, Stream};

/// Damages an original: JSON mostly in a way that keeps it valid JSON.
fn damaged(subject: Subject, original: &[u8], stream: &mut Stream) -> Vec<u8> {
    // The first byte of a state is the number of its hook.
    let head = match subject {
        Subject::State => 1,
        Subject::Counters => 0,
        _ => return mutated(original, stream),
    };
    let (head, bytes) = original.split_at(head);
    let other = match stream.below(4) {
        0 => None,
        _ => json::damaged(bytes, stream),
    };
    let other = other.unwrap_or_else(|| mutated(bytes, stream));
    [head, &other].concat()
}

/// Feeds `count` mutated inputs of a subject, drawn from a seed; returns how many were accepted.
///
/// # Panics
///
/// If the host panics, or accepts what it must not.
pub fn strike(subject: Subject, seed: u64, count: u64) -> u64 {
    let bench = Bench::new(subject);
    let originals = bench.originals();
    let mut accepted = 0;
    for number in 0..count {
        let mut stream = random::stream(seed, subject.name(), number, 0);
        let original = &originals[stream.below(originals.len() as u64) as usize];
        let input = damaged(subject, original, &mut stream);
        accepted += u64::from(bench.take(&input));
    }
    accepted
}
