//! Rows of logits and their targets: what each row adds to a cross entropy, and the gradients of its logits.

use std::mem::MaybeUninit;

use candle_core::{Result, WithDType, bail};

use crate::kernels::fill::{Rows, Schedule, fill_parts};
use crate::kernels::math::{LANES, largest, number, sum};
use crate::kernels::region;
use crate::kernels::write_all;
use crate::options::CrossEntropyTerms;
use crate::storage::Number;
use crate::vectorised;

/// The targets of rows of logits, and how much each counts.
pub(super) struct TargetRows {
    targets: Vec<Option<u32>>,
    terms: CrossEntropyTerms,
    divisor: f64,
    classes: usize,
}

impl TargetRows {
    /// Targets of logits (rows, classes), checked to be classes.
    pub(super) fn new(
        [rows, classes]: [usize; 2],
        targets: &[Option<u32>],
        terms: CrossEntropyTerms,
        divisor: f64,
    ) -> Result<TargetRows> {
        if rows != targets.len() {
            bail!("{rows} rows of logits, but {} targets", targets.len())
        }
        if let Some(target) = targets.iter().flatten().find(|&&y| y as usize >= classes) {
            bail!(
                "the target {target} is not one of the outputs' {classes} classes, 0 to {}",
                classes.saturating_sub(1)
            )
        }
        check_weights(&terms, classes)?;
        check_rows(&terms, rows)?;
        Ok(TargetRows {
            targets: targets.to_vec(),
            terms,
            divisor,
            classes,
        })
    }

    /// Number of rows.
    pub(super) fn count(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    pub(super) fn targets(&self) -> &[Option<u32>] {
        &self.targets
    }

    pub(super) fn terms(&self) -> &CrossEntropyTerms {
        &self.terms
    }

    pub(super) fn divisor(&self) -> f64 {
        self.divisor
    }

    /// The loss of all rows.
    pub(super) fn mean(&self, losses: &[f64]) -> f64 {
        losses.iter().sum::<f64>() / self.divisor
    }

    /// How `rows` rows are distributed over the threads.
    pub(super) fn schedule(&self, rows: usize) -> Schedule {
        Schedule::stealing(region::parts(rows * self.classes * 16), rows, 1)
    }

    /// Coefficients in the loss of a row: (of its target, of each class before its weight).
    fn shares(&self, row: usize, target: u32) -> (f64, f64) {
        let weight = |class: u32| match &self.terms.weights {
            Some(weights) => weights.get(class as usize).copied().unwrap_or(0.0),
            None => 1.0,
        };
        let smoothing = self.terms.smoothing;
        let own = (1.0 - smoothing) * weight(target);
        let even = smoothing / self.classes as f64;
        match &self.terms.rows {
            Some(rows) => (own * rows[row], even * rows[row]),
            None => (own, even),
        }
    }
}

/// [`TargetRows`] with the classes' weights in the type of the logits.
pub(super) struct RowTerms<'a, T> {
    rows: &'a TargetRows,
    /// Empty where all are 1.
    weights: Vec<T>,
    /// Σ of the weights.
    all: f64,
}

impl<'a, T: Number> RowTerms<'a, T> {
    pub(super) fn of(rows: &'a TargetRows) -> RowTerms<'a, T> {
        let weights = rows.terms.weights.iter().flatten();
        let all = match &rows.terms.weights {
            Some(weights) => weights.iter().sum(),
            None => rows.classes as f64,
        };
        RowTerms {
            rows,
            weights: weights.map(|&weight| number(weight)).collect(),
            all,
        }
    }

    /// The loss of a row before the division, and log Σ exp of its logits; `None` for a row that doesn't count.
    pub(super) fn loss(&self, row: usize, x: &[T]) -> Option<(f64, T)> {
        let target = self.rows.targets[row]?;
        let log_sum = log_sum(x);
        let (own, even) = self.rows.shares(row, target);
        let mut loss = own * plain(log_sum - x[target as usize]);
        if even > 0.0 {
            loss += even * plain(spread(x, log_sum, &self.weights));
        }
        Some((loss, log_sum))
    }

    /// What the gradients of a row's logits are made of, times `scale`; `None` for a row that doesn't count.
    pub(super) fn factors(&self, row: usize, scale: f64) -> Option<RowFactors<T>> {
        let target = self.rows.targets[row]?;
        let (own, even) = self.rows.shares(row, target);
        Some(RowFactors {
            of_each: number((own + even * self.all) * scale),
            even: number(even * scale),
            own: number(own * scale),
            target: target as usize,
        })
    }

    /// Writes the gradients of a row's logits.
    pub(super) fn write_gradients<'s>(
        &self,
        factors: &RowFactors<T>,
        x: &[T],
        log_sum: T,
        slots: &'s mut [MaybeUninit<T>],
    ) -> &'s mut [T] {
        let (of_each, even) = (factors.of_each, factors.even);
        let gradients = row_gradient(x, log_sum, of_each, even, &self.weights, slots);
        gradients[factors.target] -= factors.own;
        gradients
    }

    /// Computes the losses of the rows from `first` on, before the division, and puts their gradients in the place of their
    /// logits if a scale of these is given.
    pub(super) fn replace_logits(
        &self,
        first: usize,
        logits: &mut [T],
        losses: &mut [f64],
        scale: Option<f64>,
    ) {
        let classes = self.rows.classes;
        let schedule = self.rows.schedule(losses.len());
        let memory = (Rows::new(losses, 1), Rows::new(logits, classes));
        fill_parts(schedule, memory, |rows, (losses, logits)| {
            let each = logits.chunks_exact_mut(classes).zip(losses);
            for (row, (x, loss)) in rows.clone().zip(each) {
                let found = self.loss(first + row, x);
                *loss = found.map_or(0.0, |(loss, _)| loss);
                let Some(scale) = scale else { continue };
                match (found, self.factors(first + row, scale)) {
                    (Some((_, log_sum)), Some(factors)) => {
                        let (of_each, even) = (factors.of_each, factors.even);
                        replace_by_gradient(x, log_sum, of_each, even, &self.weights);
                        x[factors.target] -= factors.own;
                    }
                    _ => x.fill(T::ZERO),
                }
            }
            ((), ())
        });
    }
}

/// What the gradients of a row's logits are made of.
pub(super) struct RowFactors<T> {
    /// Of each class's share of the softmax.
    of_each: T,
    /// Of each class's weight.
    even: T,
    /// Of the target.
    own: T,
    target: usize,
}

/// Checks that there is a weight for each class, if there are any.
pub(super) fn check_weights(terms: &CrossEntropyTerms, classes: usize) -> Result<()> {
    match &terms.weights {
        Some(weights) if weights.len() != classes => {
            bail!(
                "expected one weight for each of the {classes} classes, found {}",
                weights.len()
            )
        }
        _ => Ok(()),
    }
}

/// Checks that there is a weight for each row, if there are any.
pub(super) fn check_rows(terms: &CrossEntropyTerms, rows: usize) -> Result<()> {
    match &terms.rows {
        Some(weights) if weights.len() != rows => {
            bail!("{} weights for {rows} rows of logits", weights.len())
        }
        _ => Ok(()),
    }
}

fn plain<T: Number>(number: T) -> f64 {
    WithDType::to_f64(number)
}

/// log Σ exp.
#[inline(always)]
fn log_sum_of<const FUSED: bool, T: Number>(x: &[T]) -> T {
    let most = largest(x);
    let total = sum([x], |[x]| (x - most).fast_exp::<FUSED>());
    most + total.ln()
}

vectorised! {
    /// log Σ exp.
    fn log_sum<T: Number>(x: &[T]) -> T {
        if x.len() < LANES {
            // As whole registers: a remainder would be computed one by one.
            let mut whole = [T::neg_infinity(); LANES];
            whole[..x.len()].copy_from_slice(x);
            return log_sum_of::<FUSED, T>(&whole);
        }
        log_sum_of::<FUSED, T>(x)
    }
}

vectorised! {
    /// Σ w[i] · (log sum − xᵢ), all weights 1 where there are none.
    fn spread<T: Number>(x: &[T], log_sum: T, weights: &[T]) -> T {
        if weights.len() == x.len() {
            sum([x, weights], |[x, weight]| weight * (log_sum - x))
        } else {
            sum([x], |[x]| log_sum - x)
        }
    }
}

vectorised! {
    /// factor · exp(x − log sum) − even · w[i].
    fn row_gradient<'a, T: Number>(
        x: &[T],
        log_sum: T,
        factor: T,
        even: T,
        weights: &[T],
        gradients: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        let share = |x: T| factor * (x - log_sum).fast_exp::<FUSED>();
        if weights.len() == x.len() {
            let both = x.iter().zip(weights);
            write_all(gradients, both.map(|(&x, &w)| share(x) - even * w))
        } else {
            write_all(gradients, x.iter().map(|&x| share(x) - even))
        }
    }
}

vectorised! {
    /// As [`row_gradient`], in the place of the logits.
    fn replace_by_gradient<T: Number>(
        x: &mut [T],
        log_sum: T,
        factor: T,
        even: T,
        weights: &[T],
    ) {
        let share = |x: T| factor * (x - log_sum).fast_exp::<FUSED>();
        if weights.len() == x.len() {
            for (x, &weight) in x.iter_mut().zip(weights) {
                *x = share(*x) - even * weight;
            }
        } else {
            for x in x {
                *x = share(*x) - even;
            }
        }
    }
}
