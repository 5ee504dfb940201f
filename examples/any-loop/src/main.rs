//! A training loop with candle, and Sconce's hooks in it.
//!
//! `cargo run --release -p sconce-example-any-loop -- ../shared/data`

#![expect(clippy::print_stdout, reason = "what the program is for")]

mod digits;

use std::error::Error;
use std::path::Path;

use candle_core::DType;
use candle_nn::{Module, Optimizer, SGD, VarBuilder, VarMap, loss};
use digits::{DEVICE, Model, correct};
use sconce_hooks::host::{HookHost, LoopPlan};
use sconce_plugin_api::ext::Request;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EPOCHS: u64 = 10;
const RATE: f64 = 0.05;
const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hooks.json");

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

    let entries = variables
        .data()
        .lock()
        .map_err(|error| error.to_string())?
        .clone();
    let plan = LoopPlan::new(EPOCHS, RATE)
        .batches(training.len() as u64)
        .validation_batches(validation.len() as u64)
        .metrics(["accuracy"]);
    let output = std::env::args()
        .nth(2)
        .unwrap_or("runs/any-loop".to_owned());
    let mut hooks = HookHost::from_file(HOOKS)?
        .parameters(entries)
        .plan(plan)
        .directory(output)
        .follows(Request::SetLearningRate)
        .start()?;
    while let Some(epoch) = hooks.next_epoch()? {
        let mut sum = 0.0;
        for batch in hooks.training(training.iter().cloned())? {
            let mut step = batch.step()?;
            let logits = step.after_forward(model.forward(step.inputs())?)?;
            let loss = step.after_loss(loss::cross_entropy(&logits, step.targets())?)?;
            sum += f64::from(loss.to_scalar::<f32>()?);
            if let Some(gradients) = step.after_backward(loss.backward()?)? {
                optimizer.set_learning_rate(step.learning_rate());
                optimizer.step(&gradients)?;
                step.after_update()?;
            }
            step.finish()?;
        }
        let (mut hits, mut samples) = (0.0, 0);
        for batch in hooks.validation(validation.iter().cloned())? {
            let mut step = batch.step()?;
            let logits = step.after_forward(model.forward(step.inputs())?)?;
            hits += correct(&logits, step.targets())?;
            samples += step.targets().dim(0)?;
            step.metric("accuracy", hits / samples as f64);
            step.after_loss(loss::cross_entropy(&logits, step.targets())?)?;
            step.finish()?;
        }
        let mean = sum / training.len() as f64;
        println!(
            "epoch {epoch}: loss {mean:.4}, accuracy {:.4}",
            hits / samples as f64
        );
    }
    if let Some((hook, reason)) = hooks.stop_reason() {
        println!("`{hook}` ended the training: {reason}");
    }
    hooks.finish()?;
    Ok(())
}
