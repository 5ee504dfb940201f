//! All calls between ranks that are threads of this process.

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use crate::meeting::Meeting;
use crate::mesh::Mesh;
use crate::network::Network;

/// Longer than any of these tests takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn meeting(directory: &Path, rank: usize, size: usize) -> Meeting {
    Meeting {
        rank,
        size,
        directory: directory.to_owned(),
        token: "token".to_owned(),
        network: Network::new(0.0, 0.0),
    }
}

/// Runs `each` on connected ranks; returns the results in order of ranks.
fn ranks<T: Send>(size: usize, timeout: Duration, each: impl Fn(Mesh) -> T + Sync) -> Vec<T> {
    let directory = tempfile::tempdir().expect("a directory");
    thread::scope(|scope| {
        let start = |rank| {
            let (meeting, each) = (meeting(directory.path(), rank, size), &each);
            scope.spawn(move || each(Mesh::connect(&meeting, timeout).expect("connected")))
        };
        // The last rank first: it has to wait for the others' sockets.
        let threads: Vec<_> = (0..size).rev().map(start).collect();
        let done = threads.into_iter().rev();
        done.map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

/// The bytes that `from` sends `to`: of uneven, sometimes no length, different for every pair.
fn message(from: usize, to: usize, scale: usize) -> Vec<u8> {
    let length = (from + 2 * to) % 4 * scale;
    (0..length)
        .map(|index| (index * 7 + from * 31 + to * 101) as u8)
        .collect()
}

/// Joins parts, and returns their offsets.
fn joined(parts: impl Iterator<Item = Vec<u8>>) -> (Vec<u8>, Vec<u64>) {
    let (mut data, mut at) = (Vec::new(), vec![0]);
    for part in parts {
        data.extend(part);
        at.push(data.len() as u64);
    }
    (data, at)
}

fn rank_of(mesh: &Mesh) -> (usize, usize) {
    let facts = mesh.facts();
    assert_eq!(facts.hosts.len(), facts.size);
    (facts.rank, facts.size)
}

#[test]
fn every_call_delivers_every_byte() {
    for size in 1..=5 {
        // The largest messages are beyond what a socket holds, so that sends wait for receives.
        for scale in [0, 1, 1000, 300_000] {
            ranks(size, LONG, |mut mesh| {
                let (rank, size) = rank_of(&mesh);
                for root in 0..size {
                    let expected = message(root, 1, scale);
                    let mut data = vec![0; expected.len()];
                    if rank == root {
                        data.clone_from(&expected);
                    }
                    mesh.broadcast(&mut data, root).expect("broadcast");
                    assert!(data == expected, "broadcast, {rank} of {size}, {scale}");
                }

                let own = |rank: usize| vec![rank as u8 + 1; scale];
                let (expected, _) = joined((0..size).map(own));
                let mut all = vec![0; expected.len()];
                mesh.gather(&own(rank), &mut all).expect("gather");
                assert!(all == expected, "gather, {rank} of {size}, {scale}");

                let (send, send_at) = joined((0..size).map(|to| message(rank, to, scale)));
                let (expected, at) = joined((0..size).map(|from| message(from, rank, scale)));
                let mut received = vec![0; expected.len()];
                mesh.exchange(&send, &send_at, &mut received, &at)
                    .expect("exchange");
                assert!(received == expected, "exchange, {rank} of {size}, {scale}");

                let (expected, at) = joined((0..size).map(|from| message(from, 0, scale)));
                let mut data = vec![0; expected.len()];
                let part = at[rank] as usize..at[rank + 1] as usize;
                data[part.clone()].copy_from_slice(&expected[part]);
                mesh.collect(&mut data, &at).expect("collect");
                assert!(data == expected, "collect, {rank} of {size}, {scale}");
            });
        }
    }
}

#[test]
fn ten_megabytes_go_both_ways_at_once() {
    const LENGTH: usize = 10_000_000;
    ranks(2, LONG, |mut mesh| {
        let (rank, _) = rank_of(&mesh);
        let send = vec![rank as u8 + 1; 2 * LENGTH];
        let at = [0, LENGTH as u64, 2 * LENGTH as u64];
        let mut received = vec![0; 2 * LENGTH];
        mesh.exchange(&send, &at, &mut received, &at)
            .expect("exchanged");
        assert!(received[..LENGTH].iter().all(|byte| *byte == 1));
        assert!(received[LENGTH..].iter().all(|byte| *byte == 2));
    });
}

#[test]
fn a_rank_that_dies_is_named() {
    // Whoever has found it keeps the own end open until all have: a rank that ends is gone for the others as well.
    let found = Barrier::new(2);
    let errors = ranks(3, LONG, |mut mesh| {
        let (rank, size) = rank_of(&mesh);
        if rank == 2 {
            return String::new();
        }
        let mut all = vec![0; size];
        let error = mesh
            .gather(&[rank as u8], &mut all)
            .expect_err("one is missing");
        found.wait();
        error.to_string()
    });
    for error in &errors[..2] {
        assert!(
            error.starts_with("rank 2 (") && error.ends_with(") is gone"),
            "{error}"
        );
    }
}

#[test]
fn a_rank_that_hangs_is_named_after_the_timeout() {
    let done = Barrier::new(2);
    let errors = ranks(2, Duration::from_millis(200), |mut mesh| {
        let (rank, _) = rank_of(&mesh);
        let error = match rank {
            0 => mesh
                .broadcast(&mut [0; 8], 1)
                .expect_err("it never comes")
                .to_string(),
            _ => String::new(),
        };
        done.wait();
        error
    });
    let error = &errors[0];
    let words = "has kept this rank waiting for 0.2 s";
    assert!(
        error.starts_with("rank 1 (") && error.ends_with(words),
        "{error}"
    );
}

#[test]
fn ranks_that_are_out_of_step_are_noticed() {
    let done = Barrier::new(2);
    let errors = ranks(2, LONG, |mut mesh| {
        let (rank, _) = rank_of(&mesh);
        let length = if rank == 0 { 8 } else { 16 };
        let gathered = mesh.gather(&vec![0; length], &mut vec![0; 2 * length]);
        done.wait();
        gathered.expect_err("the lengths differ").to_string()
    });
    assert!(
        errors[0].contains("rank 1 (") && errors[0].contains("another point"),
        "{errors:?}"
    );
}

#[test]
fn strangers_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    thread::scope(|scope| {
        let first = scope.spawn(|| Mesh::connect(&meeting(path, 0, 2), LONG));
        let mut stranger = meeting(path, 1, 2);
        stranger.token = "other".to_owned();
        let error = Mesh::connect(&stranger, LONG)
            .expect_err("refused")
            .to_string();
        assert!(error.contains("rank 0 refuses this one"), "{error}");
        std::fs::remove_file(path.join("1")).expect("the stranger's socket");
        let second = Mesh::connect(&meeting(path, 1, 2), LONG);
        assert_eq!(second.map_or(0, |mesh| mesh.facts().size), 2);
        let first = first.join().expect("no panic");
        assert_eq!(first.map_or(0, |mesh| mesh.facts().size), 2);
    });
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let short = Duration::from_millis(50);
    for (rank, missing) in [
        (0, "rank 1 has not appeared"),
        (1, "rank 0 has not appeared"),
    ] {
        let error = Mesh::connect(&meeting(directory.path(), rank, 2), short);
        let error = error.expect_err("alone").to_string();
        assert!(error.contains(missing), "{error}");
        std::fs::remove_file(directory.path().join(rank.to_string())).expect("removed");
    }
}
