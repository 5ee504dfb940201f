//! Statistics that are recorded and applied later have the bits of those applied at once, and synchronised
//! ones are the same on all ranks.

use std::cell::RefCell;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use candle_core::{DType, Tensor};
use serde_json::{Value, json};

use crate::ops::AcrossRanks;
use crate::parameters::{ParameterKind, Parameters};
use crate::test_numbers::normal_numbers;
use crate::{Model, ModelConfig, Network, Pass, Signal, StatisticsLog, Targets};

/// A model with its parameters, as a process has it.
struct Process {
    parameters: Parameters,
    network: Network,
}

impl Process {
    fn new(model: Value) -> Process {
        let config: ModelConfig = serde_json::from_value(model).expect("a model");
        let mut parameters = Parameters::new(3, DType::F32, &sconce_ops::device::for_tests());
        let classes = (0..5).map(|class| class.to_string()).collect();
        let signal = Signal::numbers(vec![3, 8, 8]);
        let network = config.build(&mut parameters, &signal, &Targets::Class(classes));
        Process {
            parameters,
            network: network.expect("a network"),
        }
    }

    /// Trains on a batch; returns the outputs' bits.
    fn train(&self, batch: &Tensor, log: Option<&RefCell<StatisticsLog>>) -> Vec<u32> {
        let mut pass = Pass::training();
        if let Some(log) = log {
            pass = pass.collecting(log);
        }
        bits(&self.network.forward(batch, &mut pass).expect("a pass"))
    }

    /// Trains on a batch whose statistics are recorded.
    fn recorded(&self, batch: &Tensor) -> StatisticsLog {
        let log = RefCell::new(StatisticsLog::default());
        self.train(batch, Some(&log));
        log.into_inner()
    }

    /// The bits of all buffers.
    fn buffers(&self) -> Vec<(String, Vec<u32>)> {
        let buffers = self.parameters.iter();
        let buffers = buffers.filter(|entry| entry.kind() == ParameterKind::Buffer);
        buffers
            .map(|entry| (entry.name().to_owned(), bits(entry.tensor())))
            .collect()
    }
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    let numbers = tensor.flatten_all().and_then(|flat| flat.to_vec1::<f32>());
    let numbers = numbers.expect("numbers");
    numbers.into_iter().map(f32::to_bits).collect()
}

/// The last of an epoch's batches is smaller.
fn batches() -> Vec<Tensor> {
    let sizes = [7, 7, 7, 7, 7, 2];
    let batch = |(seed, size)| normal_numbers(seed, (size, 3, 8, 8)).expect("a batch");
    (1..).zip(sizes).map(batch).collect()
}

fn models() -> Vec<Value> {
    vec![
        json!({"kind": "resnet", "blocks": [1, 1], "width": 4}),
        json!({"kind": "convnet", "channels": [4, 8], "hidden": [16], "batch_norm": true, "kernel": 3, "padding": 1}),
        json!({"kind": "sequential", "layers": [
            {"kind": "batch-norm", "name": "first", "momentum": 0.3},
            {"kind": "flatten", "name": "flat"},
            {"kind": "linear", "name": "hidden", "outputs": 6},
            {"kind": "batch-norm", "name": "second"},
            {"kind": "linear", "name": "head"},
        ]}),
    ]
}

#[test]
fn statistics_applied_later_have_the_bits_of_those_applied_at_once() {
    for model in models() {
        let (at_once, later) = (Process::new(model.clone()), Process::new(model));
        let start = later.buffers();
        assert_eq!(at_once.buffers(), start);
        let mut logs = Vec::new();
        for batch in batches() {
            let log = RefCell::new(StatisticsLog::default());
            let outputs = later.train(&batch, Some(&log));
            assert_eq!(at_once.train(&batch, None), outputs);
            logs.push(log.into_inner());
        }
        assert_eq!(later.buffers(), start, "nothing was applied yet");
        for (index, log) in logs.iter().enumerate() {
            assert!(!log.is_empty());
            if index % 2 == 0 {
                log.apply().expect("its own batch");
            } else {
                let record = log.to_bytes().expect("a record");
                log.apply_bytes(&record).expect("its own record");
            }
        }
        assert_ne!(later.buffers(), start);
        assert_eq!(later.buffers(), at_once.buffers());
    }
}

#[test]
fn records_of_two_processes_give_both_the_statistics_of_one() {
    for model in models() {
        let one = Process::new(model.clone());
        let two = [Process::new(model.clone()), Process::new(model)];
        // Updates of four batches, of which each process computes two, and an update of two.
        for update in batches().chunks(4) {
            let half = update.len() / 2;
            let mut records = Vec::new();
            for (process, own) in two.iter().zip(update.chunks(half)) {
                for batch in own {
                    let record = process.recorded(batch).to_bytes().expect("a record");
                    records.push(record);
                }
            }
            for batch in update {
                one.train(batch, None);
            }
            for (process, own) in two.iter().zip(update.chunks(half)) {
                let template = process.recorded(&own[0]);
                for record in &records {
                    assert_eq!(record.len(), template.record_length());
                    template.apply_bytes(record).expect("a record of the model");
                }
            }
        }
        for process in &two {
            assert_eq!(process.buffers(), one.buffers());
        }
    }
}

#[test]
fn frozen_batch_norms_record_nothing_and_neither_does_evaluation() {
    let process = Process::new(models().remove(2));
    let batch = &batches()[0];
    let log = process.recorded(batch);
    // Three channels and six units.
    let length = |channels: usize| 8 + 2 * channels * 4;
    assert_eq!(log.record_length(), length(3) + length(6));
    let frozen = process.parameters.set_frozen("first.running_mean", true);
    frozen.expect("it is there");
    let of_rest = process.recorded(batch);
    assert_eq!(of_rest.record_length(), length(6));
    assert_eq!(of_rest.to_bytes().expect("a record").len(), length(6));

    let all = log.to_bytes().expect("a record");
    let before = process.buffers();
    let error = of_rest.apply_bytes(&all).expect_err("another length");
    let error = error.to_string();
    assert!(error.contains("88 bytes instead of 56"), "{error}");
    assert_eq!(process.buffers(), before);

    let log = RefCell::new(StatisticsLog::default());
    let mut pass = Pass::evaluation().collecting(&log);
    process.network.forward(batch, &mut pass).expect("a pass");
    assert!(log.borrow().is_empty());
    log.borrow().apply().expect("nothing to apply");
    log.borrow().apply_bytes(&[]).expect("nothing to apply");
    assert_eq!(process.buffers(), before);
}

#[test]
fn records_without_a_variance_change_nothing() {
    let process = Process::new(models().remove(2));
    let mut log = process.recorded(&batches()[0]);
    let mut record = log.to_bytes().expect("a record");
    let before = process.buffers();
    // The second layer's count, after the first layer's record.
    record[32..40].copy_from_slice(&1_u64.to_le_bytes());
    let error = log.apply_bytes(&record).expect_err("a count of 1");
    assert!(error.to_string().contains("from 1 values"), "{error}");
    assert_eq!(process.buffers(), before, "nor the first layer's");
    log.clear();
    assert!(log.is_empty());
}

/// Two ranks that are threads of this process.
#[derive(Debug)]
struct TwoThreads {
    barrier: Barrier,
    values: Mutex<[Vec<f64>; 2]>,
}

#[derive(Debug)]
struct ThreadRank(Arc<TwoThreads>, usize);

impl AcrossRanks for ThreadRank {
    fn size(&self) -> usize {
        2
    }

    fn gather(&self, own: &[f64], all: &mut [f64]) -> candle_core::Result<()> {
        let ThreadRank(threads, rank) = self;
        threads.values.lock().expect("values")[*rank] = own.to_vec();
        threads.barrier.wait();
        let values = threads.values.lock().expect("values").concat();
        threads.barrier.wait();
        all.copy_from_slice(&values);
        Ok(())
    }
}

/// Trains two ranks on rounds of two batches; the second rank's batch counts in all rounds but the last.
/// Returns the buffers' bits of both ranks.
fn synchronised(
    model: &Value,
    rounds: &[[Tensor; 2]],
    collects: bool,
) -> [Vec<(String, Vec<u32>)>; 2] {
    let threads = Arc::new(TwoThreads {
        barrier: Barrier::new(2),
        values: Mutex::default(),
    });
    let train = |rank: usize| {
        let process = Process::new(model.clone());
        for (index, round) in rounds.iter().enumerate() {
            let counts = rank == 0 || index + 1 < rounds.len();
            let ranks = Arc::new(ThreadRank(Arc::clone(&threads), rank));
            let log = RefCell::new(StatisticsLog::default());
            let mut pass = Pass::training().across(ranks, counts);
            if collects {
                pass = pass.collecting(&log);
            }
            let outputs = process.network.forward(&round[rank], &mut pass);
            outputs.expect("a pass");
            log.borrow().apply().expect("the round's statistics");
        }
        process.buffers()
    };
    thread::scope(|scope| {
        let second = scope.spawn(|| train(1));
        [train(0), second.join().expect("the second rank")]
    })
}

#[test]
fn synchronised_statistics_are_those_of_one_batch_on_all_ranks() {
    let mut batches = batches().into_iter();
    let mut next = || batches.next().expect("a batch");
    let rounds = [[next(), next()], [next(), next()], [next(), next()]];
    for model in models() {
        let [first, second] = synchronised(&model, &rounds, false);
        assert_eq!(first, second);
        assert_eq!(synchronised(&model, &rounds, true), [first.clone(), second]);
        let one = Process::new(model);
        for (index, [of_first, of_second]) in rounds.iter().enumerate() {
            let together = Tensor::cat(&[of_first, of_second], 0).expect("a batch");
            // The last round's second batch doesn't count.
            let batch = if index == 2 { of_first } else { &together };
            one.train(batch, None);
        }
        for ((name, found), (_, expected)) in first.iter().zip(one.buffers()) {
            for (found, expected) in found.iter().zip(expected) {
                let (found, expected) = (f32::from_bits(*found), f32::from_bits(expected));
                let tolerance = 1e-5 * expected.abs().max(1.0);
                assert!(
                    (found - expected).abs() < tolerance,
                    "{name}: {found}, in one process {expected}"
                );
            }
        }
    }
}
