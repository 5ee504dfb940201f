//! Damaged inputs for everything that the host reads: none may crash it.
//!
//! `cargo run --release -p sconce-tests --bin mutate -- [COUNT [SEED [SUBJECT ...]]]`; by default 100,000
//! manifests and checkpoints and 10,000 of everything else. The inputs are a matter of seed and number.
#![allow(clippy::print_stdout, reason = "it talks to whoever runs it")]

use std::process::ExitCode;

use sconce_tests::mutations::{Subject, strike};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().map(|text| text.parse::<u64>()).transpose();
    let (Ok(count), Ok(seed)) = (number(), number()) else {
        println!("usage: mutate [COUNT [SEED [SUBJECT ...]]]");
        return 2.into();
    };
    let names: Vec<String> = arguments.collect();
    for subject in Subject::ALL {
        if !names.is_empty() && !names.iter().any(|name| name == subject.name()) {
            continue;
        }
        let count = count.unwrap_or(match subject {
            Subject::Manifest | Subject::Checkpoint => 100_000,
            _ => 10_000,
        });
        let accepted = strike(subject, seed.unwrap_or(1), count);
        println!(
            "{}: {count} damaged inputs, {accepted} of them accepted",
            subject.name()
        );
    }
    ExitCode::SUCCESS
}
