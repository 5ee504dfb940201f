//! A training loop with candle alone.
//!
//! `cargo run --release -p sconce-example-any-loop --bin plain-loop -- ../shared/data`

#![expect(clippy::print_stdout, reason = "what the program is for")]

mod digits;

use std::error::Error;
use std::path::Path;

use candle_core::DType;
use candle_nn::{Module, Optimizer, SGD, VarBuilder, VarMap, loss};
use digits::{DEVICE, Model, correct};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EPOCHS: u64 = 10;
const RATE: f64 = 0.05;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).unwrap_or_default();
    let (training, validation) = digits::load(Path::new(&directory))?;
    let inputs = training[0].0.dim(1)?;
    let variables = VarMap::new();
    let model = Model::new(
        inputs,
        &VarBuilder::from_varmap(&variables, DType::F32, &DEVICE),
    )?;
    let mut optimizer = SGD::new(variables.all_vars(), RATE)?;

    for epoch in 0..EPOCHS {
        let mut sum = 0.0;
        for (inputs, targets) in &training {
            let logits = model.forward(inputs)?;
            let loss = loss::cross_entropy(&logits, targets)?;
            sum += f64::from(loss.to_scalar::<f32>()?);
            optimizer.step(&loss.backward()?)?;
        }
        let (mut hits, mut samples) = (0.0, 0);
        for (inputs, targets) in &validation {
            let logits = model.forward(inputs)?;
            hits += correct(&logits, targets)?;
            samples += targets.dim(0)?;
        }
        let mean = sum / training.len() as f64;
        println!(
            "epoch {epoch}: loss {mean:.4}, accuracy {:.4}",
            hits / samples as f64
        );
    }
    Ok(())
}
