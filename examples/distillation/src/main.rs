//! A custom task built on the host library: a student whose loss uses logits published by a hook.
//!
//! `sconce run examples/digits/run.json` trains the teacher; then
//! `cargo run --release -p sconce-example-distillation -- run examples/distillation/run.json`
//!
//! The host provides everything except the loss: manifest, data, model, optimizer, plugins, loop,
//! and the complete command line.

mod task;

use std::process::ExitCode;

use sconce::data::Splits;
use sconce::manifest::Manifest;
use sconce::session::{self, StartFailure};
use sconce::task::Task;

use task::Distillation;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn build(manifest: &Manifest, data: Option<Splits>) -> Result<Box<dyn Task>, StartFailure> {
    let student = session::build_task(manifest, data)?;
    Ok(Box::new(Distillation::new(student)))
}

fn main() -> ExitCode {
    sconce::cli::main_with(&build)
}
