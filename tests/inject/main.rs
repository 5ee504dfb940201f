//! The fault injector: runs with each pair of the standard hooks that keep files or checkpoints are killed, lose power,
//! or have calls fail, at each system call that changes their directory, and are continued. In the end each must have
//! the weights and files of an undisturbed run, or have said what to do.
//!
//! `cargo run --release -p sconce-tests --bin inject -- [--every N] [--offset K] [--epochs N] [--errors] [--at TEXT]
//! [HOOK …]`
//!
//! Without names: all pairs; with one: its pairs with all; with more than two: one run with all of them. `--every` takes
//! every N-th point from the K-th on, `--at` those whose name, such as `fsync train.csv #3`, contains the text, or after a
//! `!` doesn't: `--at '!checkpoints'` takes hooks' own files. `--errors` has calls fail in place of the kills and power
//! failures, which takes a new run each. Prints a table, and what is wrong.
#![allow(clippy::print_stdout, reason = "it talks to whoever runs it")]

use std::process::ExitCode;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod pairs;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn main() -> ExitCode {
    let plan = match pairs::Plan::of(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(problem) => {
            println!("{problem}");
            return 2.into();
        }
    };
    if let Err(error) = sconce_tests::injection::permitted() {
        println!("calls of a run can't be stopped here: {error}");
        return 1.into();
    }
    if plan.all() { 0.into() } else { 1.into() }
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn main() -> ExitCode {
    println!("calls of a run can only be stopped on Linux");
    1.into()
}
