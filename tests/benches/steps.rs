//! The tasks' training steps, each phase apart, and whole ones over batch sizes.
//!
//! `cargo bench -p sconce-tests --bench steps`; one thread: `CANDLE_NUM_THREADS=1 RAYON_NUM_THREADS=1` in
//! front. Beside PyTorch: `tests/against_pytorch.py`.
#![allow(
    clippy::expect_used,
    reason = "a benchmark that finds its machine broken may say so by panicking"
)]

use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use sconce_tests::steps::{Step, TASKS};

/// The binary's: a training step without it is another one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn whole(step: &mut Step) -> f32 {
    let loss = step.forward().expect("a forward pass");
    let gradients = step.backward(&loss).expect("a backward pass");
    step.update(&gradients);
    loss.to_scalar().expect("a loss")
}

/// Forward with loss, backward, update, and all of them.
fn phases(criterion: &mut Criterion) {
    for task in TASKS {
        let mut group = criterion.benchmark_group(task);
        group
            .sample_size(20)
            .measurement_time(Duration::from_secs(3));
        let mut step = Step::new(task, None);
        group.bench_function("forward", |bencher| {
            bencher.iter(|| step.forward().expect("a forward pass"));
        });
        group.bench_function("backward", |bencher| {
            let forward = || step.forward().expect("a forward pass");
            let backward = |loss| step.backward(&loss).expect("a backward pass");
            bencher.iter_batched(forward, backward, BatchSize::PerIteration);
        });
        let loss = step.forward().expect("a forward pass");
        let gradients = step.backward(&loss).expect("a backward pass");
        group.bench_function("update", |bencher| {
            bencher.iter(|| step.update(&gradients));
        });
        group.bench_function("step", |bencher| bencher.iter(|| whole(&mut step)));
        group.finish();
    }
}

/// Whole steps at batch sizes from 1 to 512.
fn batches(criterion: &mut Criterion) {
    for (task, sizes) in [
        ("mlp", &[1, 8, 64, 512][..]),
        ("lenet", &[1, 8, 64, 512]),
        ("gpt", &[1, 12, 64]),
    ] {
        let mut group = criterion.benchmark_group(format!("{task} at batch"));
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(3));
        for &size in sizes {
            let mut step = Step::new(task, Some(size));
            group.bench_function(size.to_string(), |bencher| {
                bencher.iter(|| whole(&mut step));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, phases, batches);
criterion_main!(benches);
