//! A task that a manifest can't express: an autoencoder, whose target is its own input.
//!
//! `cargo run --release -p sconce-example-autoencoder -- run examples/autoencoder/run.json`
//!
//! Its model is written with `candle_nn`. The host provides hooks, checkpoints and the complete
//! command line; the manifest's `task` section is this program's own configuration.

mod model;
mod task;

use std::process::ExitCode;

use sconce::data::Splits;
use sconce::manifest::Manifest;
use sconce::session::{StartFailure, open_device};
use sconce::task::Task;

use task::Reconstruction;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn build(manifest: &Manifest, data: Option<Splits>) -> Result<Box<dyn Task>, StartFailure> {
    let config = manifest.task.clone().unwrap_or_default();
    let data = data.ok_or_else(|| StartFailure::task("the manifest has no `data`"))?;
    Ok(Box::new(Reconstruction::new(
        &serde_json::from_value(config)?,
        manifest.seed,
        data,
        &open_device(manifest)?,
    )?))
}

fn main() -> ExitCode {
    sconce::cli::main_with(&build)
}
