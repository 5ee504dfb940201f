//! One task's training step as `shared/peers/torch_tasks.py` times it, in the same words:
//!
//! `step TASK STEPS [BATCH]`, with the threads of `CANDLE_NUM_THREADS` and `RAYON_NUM_THREADS`.
//!
//! One JSON line: the median and mean of forward pass, loss, backward pass, AdamW step and reading of
//! the loss, in milliseconds, after ten steps to warm up; and the medians of the phases.

use std::error::Error;
use std::time::Instant;

use sconce::kernels::level;
use sconce_tests::steps::Step;
use serde_json::json;

/// The binary's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WARM_UP: usize = 10;

#[expect(clippy::print_stdout, reason = "it is its result")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [task, steps, rest @ ..] = arguments.as_slice() else {
        return Err("usage: step TASK STEPS [BATCH]".into());
    };
    let count: usize = steps.parse()?;
    let batch = rest.first().map(|batch| batch.parse()).transpose()?;
    let mut step = Step::new(task, batch);
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut last = 0.0;
    for index in 0..count + WARM_UP {
        let start = Instant::now();
        let loss = step.forward()?;
        let forward = start.elapsed();
        let gradients = step.backward(&loss)?;
        let backward = start.elapsed();
        step.update(&gradients);
        let update = start.elapsed();
        last = loss.to_scalar::<f32>()?;
        drop((loss, gradients));
        let all = start.elapsed();
        if index >= WARM_UP {
            let parts = [
                all,
                forward,
                backward.saturating_sub(forward),
                update.saturating_sub(backward),
            ];
            for (times, part) in times.iter_mut().zip(parts) {
                times.push(part.as_secs_f64() * 1e3);
            }
        }
    }
    let mean = times[0].iter().sum::<f64>() / times[0].len().max(1) as f64;
    let [all, forward, backward, update] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2] * 1e4).round() / 1e4
    });
    println!(
        "{}",
        json!({
            "task": task, "steps": count, "batch": batch, "params": step.parameters().element_count(),
            "instructions": format!("{:?}", level()), "loss": last,
            "median_ms": all, "mean_ms": (mean * 1e4).round() / 1e4,
            "forward_ms": forward, "backward_ms": backward, "update_ms": update,
        })
    );
    Ok(())
}
