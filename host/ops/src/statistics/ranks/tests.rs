//! Synchronised batch norm against one batch norm of all batches together, and against finite differences.

use std::sync::{Barrier, Mutex};
use std::thread;

use candle_core::{DType, Var};

use super::*;
use crate::{backward, batch_norm, batch_norm_across, normal_numbers, record};

/// Ranks that are threads of this process.
#[derive(Debug)]
struct Threads {
    barrier: Barrier,
    values: Mutex<Vec<Vec<f64>>>,
}

#[derive(Debug)]
struct ThreadRank {
    threads: Arc<Threads>,
    rank: usize,
}

impl AcrossRanks for ThreadRank {
    fn size(&self) -> usize {
        self.threads.values.lock().expect("values").len()
    }

    fn gather(&self, own: &[f64], all: &mut [f64]) -> Result<()> {
        self.threads.values.lock().expect("values")[self.rank] = own.to_vec();
        self.threads.barrier.wait();
        let values = self.threads.values.lock().expect("values").concat();
        self.threads.barrier.wait();
        all.copy_from_slice(&values);
        Ok(())
    }
}

/// Runs `work` on this many ranks, given the rank's number; returns the results in the order of ranks.
fn on_ranks<R: Send>(
    size: usize,
    work: impl Fn(usize, Arc<dyn AcrossRanks>) -> R + Sync,
) -> Vec<R> {
    let threads = Arc::new(Threads {
        barrier: Barrier::new(size),
        values: Mutex::new(vec![Vec::new(); size]),
    });
    thread::scope(|scope| {
        let work = &work;
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let threads = Arc::clone(&threads);
                scope.spawn(move || work(rank, Arc::new(ThreadRank { threads, rank })))
            })
            .collect();
        let results = ranks.into_iter().map(|rank| rank.join().expect("a rank"));
        results.collect()
    })
}

/// What a rank computes from its batch, with the loss Σ factors · output.
struct Outcome {
    statistics: ChannelStatistics,
    output: Tensor,
    loss: f64,
    of_x: Tensor,
    of_weight: Tensor,
    of_bias: Tensor,
}

const EPSILON: f64 = 1e-5;

/// The same weight and bias on all ranks.
fn parameters(channels: usize, dtype: DType) -> Result<[Var; 2]> {
    let var = |seed| Var::from_tensor(&normal_numbers(seed, channels)?.to_dtype(dtype)?);
    Ok([var(100)?, var(101)?])
}

/// Both passes over a batch, alone or among those of other ranks.
fn both_passes(x: &Tensor, factors: &Tensor, shared: Option<&SharedBatch>) -> Result<Outcome> {
    let [weight, bias] = parameters(x.dim(1)?, x.dtype())?;
    let x = Var::from_tensor(x)?;
    let own = ChannelStatistics::of(&x)?;
    let _recording = record();
    let (statistics, output) = if let Some(shared) = shared {
        let all = shared.statistics(&own)?;
        let output = batch_norm_across(&x, &weight, &bias, &all, EPSILON, shared)?;
        (all, output)
    } else {
        let output = batch_norm(&x, &weight, &bias, &own, EPSILON, true)?;
        (own, output)
    };
    let loss = output.mul(factors)?.sum_all()?;
    let store = backward(&loss, 1.0)?;
    let gradient = |var: &Var| store.get(var).expect("a gradient").clone();
    Ok(Outcome {
        statistics,
        output,
        loss: loss.to_dtype(DType::F64)?.to_scalar()?,
        of_x: gradient(&x),
        of_weight: gradient(&weight),
        of_bias: gradient(&bias),
    })
}

/// Batches of different sizes, of other means and variances, and factors of their outputs.
fn batches(sizes: &[usize]) -> Result<Vec<(Tensor, Tensor)>> {
    let batch = |(seed, &size)| {
        let shape = (size, 3, 2, 2);
        let x = normal_numbers(seed, shape)?.to_dtype(DType::F64)?;
        let factors = normal_numbers(seed + 50, shape)?.to_dtype(DType::F64)?;
        Ok((x.affine(seed as f64, 3.0 * seed as f64)?, factors))
    };
    (1..).zip(sizes).map(batch).collect()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let flat = tensor.flatten_all().and_then(|flat| numbers(&flat));
    flat.expect("numbers")
}

#[track_caller]
fn expect_close(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.dims(), expected.dims());
    for (found, expected) in values(found).into_iter().zip(values(expected)) {
        let tolerance = 1e-11 * expected.abs().max(1.0);
        assert!(
            (found - expected).abs() < tolerance,
            "{found}, not {expected}"
        );
    }
}

#[test]
fn batches_normalised_together_are_one_batch() -> Result<()> {
    let batches = batches(&[4, 1, 3])?;
    let all = |pick: fn(&(Tensor, Tensor)) -> &Tensor| {
        let tensors: Vec<&Tensor> = batches.iter().map(pick).collect();
        Tensor::cat(&tensors, 0)
    };
    let together = both_passes(&all(|(x, _)| x)?, &all(|(_, factors)| factors)?, None)?;
    let ranks = on_ranks(3, |rank, ranks| {
        let (x, factors) = &batches[rank];
        both_passes(x, factors, Some(&SharedBatch::new(ranks, true)))
    });
    let ranks = ranks.into_iter().collect::<Result<Vec<Outcome>>>()?;
    let mut start = 0;
    for rank in &ranks {
        let size = rank.output.dim(0)?;
        let part = |tensor: &Tensor| tensor.narrow(0, start, size);
        expect_close(&rank.output, &part(&together.output)?);
        expect_close(&rank.of_x, &part(&together.of_x)?);
        assert_eq!(rank.statistics.count, 8 * 4);
        expect_close(&rank.statistics.mean, &together.statistics.mean);
        expect_close(&rank.statistics.variance, &together.statistics.variance);
        let first = &ranks[0].statistics;
        assert_eq!(values(&rank.statistics.mean), values(&first.mean));
        assert_eq!(values(&rank.statistics.variance), values(&first.variance));
        start += size;
    }
    let sum = |pick: fn(&Outcome) -> &Tensor| {
        let mut ranks = ranks.iter().map(pick);
        let first = ranks.next().expect("a rank").clone();
        ranks.try_fold(first, |sum, next| sum.add(next))
    };
    expect_close(&sum(|rank| &rank.of_weight)?, &together.of_weight);
    expect_close(&sum(|rank| &rank.of_bias)?, &together.of_bias);
    Ok(())
}

#[test]
fn gradients_are_those_of_the_sum_of_all_ranks_losses() -> Result<()> {
    let batches = batches(&[2, 1])?;
    let round = |batches: &[(Tensor, Tensor)]| -> Result<Vec<Outcome>> {
        let outcomes = on_ranks(2, |rank, ranks| {
            let (x, factors) = &batches[rank];
            both_passes(x, factors, Some(&SharedBatch::new(ranks, true)))
        });
        outcomes.into_iter().collect()
    };
    let gradients = round(&batches)?;
    let step = 1e-6;
    for (rank, outcome) in gradients.iter().enumerate() {
        let x = &batches[rank].0;
        for (element, gradient) in values(&outcome.of_x).into_iter().enumerate() {
            let loss = |step: f64| -> Result<f64> {
                let mut moved = batches.clone();
                let mut numbers = values(x);
                numbers[element] += step;
                moved[rank].0 = Tensor::from_vec(numbers, x.dims(), &crate::device::for_tests())?;
                Ok(round(&moved)?.iter().map(|rank| rank.loss).sum())
            };
            let derivative = (loss(step)? - loss(-step)?) / (2.0 * step);
            assert!(
                (derivative - gradient).abs() < 1e-6,
                "rank {rank}, element {element}: {gradient}, by differences {derivative}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_batch_that_does_not_count_changes_no_bit_of_the_others() -> Result<()> {
    let batches = batches(&[3, 2, 2])?;
    let counts = [true, false, true];
    let three = on_ranks(3, |rank, ranks| {
        let (x, factors) = &batches[rank];
        both_passes(x, factors, Some(&SharedBatch::new(ranks, counts[rank])))
    });
    let three = three.into_iter().collect::<Result<Vec<Outcome>>>()?;
    let two = on_ranks(2, |rank, ranks| {
        let (x, factors) = &batches[2 * rank];
        both_passes(x, factors, Some(&SharedBatch::new(ranks, true)))
    });
    for (rank, alone) in [0, 2].into_iter().zip(two) {
        let (among, alone) = (&three[rank], alone?);
        assert_eq!(values(&among.output), values(&alone.output));
        assert_eq!(values(&among.of_x), values(&alone.of_x));
        assert_eq!(values(&among.of_weight), values(&alone.of_weight));
        assert_eq!(among.statistics.count, alone.statistics.count);
    }
    // The one that doesn't count is normalised as if its statistics were constants, by those of the others.
    let [weight, bias] = parameters(3, DType::F64)?;
    let (other, statistics) = (&three[1], &three[0].statistics);
    let expected = batch_norm(&batches[1].0, &weight, &bias, statistics, EPSILON, false)?;
    assert_eq!(values(&other.output), values(&expected));
    assert_eq!(other.statistics.count, 5 * 4);
    assert!(values(&other.of_x).into_iter().all(f64::is_finite));
    Ok(())
}

#[test]
fn a_rank_alone_has_the_bits_of_a_batch_norm_that_is_not_synchronised() -> Result<()> {
    let x = normal_numbers(1, (5, 3, 7))?.affine(2.0, 30.0)?;
    let factors = normal_numbers(2, (5, 3, 7))?;
    let alone = both_passes(&x, &factors, None)?;
    let mut ranks = on_ranks(1, |_, ranks| {
        both_passes(&x, &factors, Some(&SharedBatch::new(ranks, true)))
    });
    let rank = ranks.remove(0)?;
    assert_eq!(rank.statistics.count, alone.statistics.count);
    for (found, expected) in [
        (&rank.statistics.mean, &alone.statistics.mean),
        (&rank.statistics.variance, &alone.statistics.variance),
        (&rank.output, &alone.output),
        (&rank.of_x, &alone.of_x),
        (&rank.of_weight, &alone.of_weight),
        (&rank.of_bias, &alone.of_bias),
    ] {
        assert_eq!(found.dtype(), DType::F32);
        assert_eq!(values(found), values(expected));
    }
    Ok(())
}

/// Fails from a call on, or gives a count that is none.
#[derive(Debug)]
struct Broken {
    calls: Mutex<usize>,
    fails_at: usize,
    count: f64,
}

impl AcrossRanks for Broken {
    fn size(&self) -> usize {
        1
    }

    fn gather(&self, own: &[f64], all: &mut [f64]) -> Result<()> {
        let mut calls = self.calls.lock().expect("a number");
        *calls += 1;
        if *calls == self.fails_at {
            bail!("rank 1 is gone")
        }
        all.copy_from_slice(own);
        all[0] = self.count;
        Ok(())
    }
}

#[test]
fn errors_of_the_exchange_are_those_of_the_pass() -> Result<()> {
    let x = normal_numbers(1, (4, 2))?;
    let error = |fails_at: usize, count: f64| {
        let calls = Mutex::new(0);
        let broken = Broken {
            calls,
            fails_at,
            count,
        };
        let shared = SharedBatch::new(Arc::new(broken), true);
        let outcome = both_passes(&x, &x, Some(&shared)).map(|_| ());
        outcome.expect_err("it is broken").to_string()
    };
    assert!(
        error(1, 4.0).contains("rank 1 is gone"),
        "in the forward pass"
    );
    assert!(
        error(2, 4.0).contains("rank 1 is gone"),
        "in the backward pass"
    );
    for count in [-1.0, 0.5, f64::NAN, f64::INFINITY] {
        let error = error(3, count);
        assert!(
            error.contains("says that its statistics are those of"),
            "{error}"
        );
    }
    Ok(())
}
