//! What a hook call costs, and what a hundred hooks cost a training step.
//!
//! `cargo bench -p sconce-tests`; instruction counts: `tests/instructions.sh`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use sconce::bridge::BridgeState;
use sconce::log::MemoryLog;
use sconce::manifest::ValidateEvery;
use sconce::run::TrainingPlan;
use sconce_lifecycle::Position;
use sconce_plugin_api::Point;
use sconce_tests::bench::{digits_task, noop_hooks, train};

/// The binary's: a training step without it is another one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A call through a pointer that the compiler can't see through, as the floor.
fn indirect_call(criterion: &mut Criterion) {
    fn nothing(argument: u64) -> u64 {
        argument
    }
    let pointer: fn(u64) -> u64 = black_box(nothing);
    criterion.bench_function("plain indirect call", |bencher| {
        bencher.iter(|| black_box(black_box(pointer)(black_box(1))));
    });
}

/// One mount point with so many no-op hooks of a plugin.
fn calls(criterion: &mut Criterion) {
    for count in [0, 1, 100] {
        let log = MemoryLog::default();
        let shared = BridgeState::new(&log);
        let mut hooks = noop_hooks(count, &shared);
        let position = Position::start(1);
        criterion.bench_function(&format!("one mount point, {count} hooks"), |bencher| {
            bencher.iter(|| hooks.call(Point::AfterIter, black_box(&position), &shared));
        });
    }
}

/// The whole training step of the MLP 784-256-10 at batch 64, with 0 and with 100 no-op hooks, each
/// of which overrides seven mount points of an iteration.
fn steps(criterion: &mut Criterion) {
    let plan = TrainingPlan {
        epochs: 1,
        validate_every: ValidateEvery::Epochs(0),
        test: false,
        ..TrainingPlan::default()
    };
    let mut group = criterion.benchmark_group("training step");
    group.sample_size(20);
    for count in [0, 100] {
        group.bench_function(format!("{count} hooks"), |bencher| {
            bencher.iter_custom(|steps| {
                let mut used = Duration::ZERO;
                for _ in 0..steps {
                    let mut task = digits_task();
                    let start = Instant::now();
                    let iterations = train(&mut task, &plan, count).iterations;
                    used += start.elapsed() / u32::try_from(iterations.max(1)).unwrap_or(1);
                }
                used
            });
        });
    }
    group.finish();
}

criterion_group!(benches, indirect_call, calls, steps);
criterion_main!(benches);
