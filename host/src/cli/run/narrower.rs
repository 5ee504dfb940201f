//! A line before a run in `f32` on a CPU: what `"precision": "bf16"` would bring for this model's products here.
//!
//! It is measured, by a product with the commonest weight of the model, so the line is for people alone: only on a terminal. Where the
//! processor has no instruction for `bf16`, or it brings little, nothing is measured or said.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use candle_core::{Device, Result, Tensor};

use crate::log::{Level, MessageFormat, StderrLog};
use crate::nn::Precision;
use crate::nn::ops;
use crate::session::Prepared;

/// Time that measuring may take, about.
const MOST: Duration = Duration::from_millis(40);

/// Operations of a product that is measured, at most: a few milliseconds.
const OPERATIONS: usize = 1 << 28;

/// Smallest number of rows, inputs and outputs of a product that is rounded.
const LEAST: usize = 16;

/// Fraction of the time in `f32` up to which the line is worth reading.
const WORTH: f64 = 0.8;

/// The line, if `bf16` brings something here and a person reads it.
pub(super) fn line(prepared: &Prepared, log: StderrLog) -> Option<String> {
    let is_for_people = log.level >= Level::Info
        && log.form == MessageFormat::Text
        && std::io::stderr().is_terminal();
    let parameters = prepared.task.parameters();
    let is_here = prepared.manifest.precision == Precision::F32
        && parameters.device().is_cpu()
        && ops::rounded_products_are_fast();
    if !is_for_people || !is_here {
        return None;
    }
    let weights = (parameters.trainable()).filter_map(|parameter| parameter.tensor().dims2().ok());
    let (outputs, inputs) = commonest(weights)?;
    let fraction = fraction(rows(prepared, (outputs, inputs)), (outputs, inputs)).ok()?;
    (fraction <= WORTH).then(|| text((outputs, inputs), fraction))
}

/// The shape of most weights among those whose products would be rounded, and the largest of several such.
fn commonest(shapes: impl Iterator<Item = (usize, usize)>) -> Option<(usize, usize)> {
    let shapes: Vec<(usize, usize)> = shapes
        .filter(|(outputs, inputs)| outputs.min(inputs) >= &LEAST)
        .collect();
    let count = |shape: &(usize, usize)| shapes.iter().filter(|other| *other == shape).count();
    (shapes.iter().copied()).max_by_key(|shape| (count(shape), shape.0 * shape.1, *shape))
}

/// Rows of a product: those of a batch, or, where samples have many positions, some of these.
fn rows(prepared: &Prepared, (outputs, inputs): (usize, usize)) -> usize {
    const SEVERAL: usize = 256;
    let batch = prepared.plan.batch_size;
    let rows = if batch < LEAST { SEVERAL } else { batch };
    rows.min(OPERATIONS / (2 * outputs * inputs)).max(LEAST)
}

/// Time of a product in `bf16` over that in `f32`, the best of several of each.
fn fraction(rows: usize, (outputs, inputs): (usize, usize)) -> Result<f64> {
    let [x, weight] = [(rows, inputs), (outputs, inputs)].map(values);
    let (x, weight) = (x?, weight?);
    let begun = Instant::now();
    let mut best = [f64::INFINITY; 2];
    loop {
        for (is_rounded, best) in [false, true].into_iter().zip(&mut best) {
            let _rounded = ops::rounded_products(is_rounded);
            let start = Instant::now();
            ops::linear(&x, &weight, None)?;
            *best = best.min(start.elapsed().as_secs_f64());
        }
        if begun.elapsed() >= MOST / 2 {
            return Ok(best[1] / best[0]);
        }
    }
}

/// Values between −1 and 1, none of them rounded already.
fn values((rows, columns): (usize, usize)) -> Result<Tensor> {
    let value = |index: usize| (index * 7919 % 2003) as f32 / 1001.5 - 1.0;
    let values: Vec<f32> = (0..rows * columns).map(value).collect();
    Tensor::from_vec(values, (rows, columns), &Device::Cpu)
}

fn text((outputs, inputs): (usize, usize), fraction: f64) -> String {
    format!(
        "  this processor multiplies `bf16` faster: with `\"precision\": \"bf16\"` products by a weight of {outputs} × {inputs} take \
         {fraction:.2} of their time in f32"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commonest_weight_is_measured_and_said() {
        let of_gpt = [
            (256, 64),
            (192, 64),
            (64, 64),
            (256, 64),
            (64, 256),
            (8, 900),
        ];
        assert_eq!(commonest(of_gpt.into_iter()), Some((256, 64)));
        assert_eq!(commonest([(32, 16), (64, 64)].into_iter()), Some((64, 64)));
        assert_eq!(commonest([(10, 784), (7, 7)].into_iter()), None);
        let fraction = fraction(LEAST, (32, 48)).expect("a product");
        assert!(fraction > 0.0, "{fraction}");
        assert_eq!(
            text((1024, 256), 0.514),
            "  this processor multiplies `bf16` faster: with `\"precision\": \"bf16\"` products by a weight of 1024 × 256 take 0.51 of \
             their time in f32"
        );
    }
}
