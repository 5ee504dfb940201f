//! Operations of candle with wrong gradients, in the graph of a loss.
//!
//! candle's graph does not expose which operation made a tensor. So they are recognised by values: for
//! a tensor and its predecessor, the first sample is recomputed. This happens once, in the first
//! iteration, and costs nothing if no tensors in the graph have matching shapes.

use std::collections::HashSet;

use candle_core::{Result, Tensor, TensorId};

/// An operation of candle with a wrong gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Name in candle; a test finds each in `docs/candle-gradients.md`.
    pub operation: &'static str,
    /// Replacement.
    pub instead: &'static str,
}

const MAX_POOL: Wrong = Wrong {
    operation: "max_pool2d",
    instead: "sconce::nn::ops::pool2d",
};
const AVG_POOL: Wrong = Wrong {
    operation: "avg_pool2d",
    instead: "sconce::nn::ops::pool2d",
};
const CONV1D: Wrong = Wrong {
    operation: "conv1d",
    instead: "sconce::nn::layers::Conv1d",
};

/// Operations that are looked for.
pub const WRONG: &[Wrong] = &[MAX_POOL, AVG_POOL, CONV1D];

/// Limit on the number of graph nodes visited.
const MOST_NODES: usize = 1_000_000;

/// Finds operations with wrong gradients in the graph of a loss, each once. `inputs` is the batch,
/// which is in no graph; `is_ours` contains the tensors made by operations of [`ops`](sconce_ops).
///
/// # Errors
///
/// candle's, if a sample can't be recomputed.
#[expect(
    clippy::implicit_hasher,
    reason = "the set is that of one caller, in this crate"
)]
pub fn wrong_operations(
    loss: &Tensor,
    inputs: &Tensor,
    is_ours: &HashSet<TensorId>,
) -> Result<Vec<Wrong>> {
    let nodes = loss.sorted_nodes();
    let mut found = Vec::new();
    let mut left = MOST_NODES;
    for node in &nodes {
        let may_be = matches!(node.rank(), 3 | 4) && !node.is_variable();
        if !may_be || is_ours.contains(&node.id()) || !has_source(node, &nodes) {
            continue;
        }
        let before = node.sorted_nodes();
        let Some(rest) = left.checked_sub(before.len()) else {
            break;
        };
        left = rest;
        let wrong = if node.rank() == 4 {
            // For an operation with one input, the next node is that input.
            before.get(1).map(|x| pooling(node, x)).transpose()?
        } else {
            Some(convolution(
                node,
                before.get(1..).unwrap_or_default(),
                inputs,
            )?)
        };
        if let Some(Some(wrong)) = wrong
            && !found.contains(&wrong)
        {
            found.push(wrong);
        }
    }
    Ok(found)
}

/// Whether the graph has a tensor with a shape from which such an operation could compute this one.
fn has_source(node: &Tensor, nodes: &[&Tensor]) -> bool {
    nodes.iter().any(|x| match (node.dims(), x.dims()) {
        ([b, c, h, w], [of_b, of_c, of_h, of_w]) => {
            (b, c) == (of_b, of_c) && of_h >= h && of_w >= w && (h, w) != (of_h, of_w)
        }
        // A convolution kernel.
        ([_, c, _], [of_c, _, _]) => c == of_c && x.is_variable(),
        _ => false,
    })
}

/// Returns the pooling that computed `node` from `x`, if its gradient is wrong.
#[expect(clippy::many_single_char_names, reason = "an image's axes")]
fn pooling(node: &Tensor, x: &Tensor) -> Result<Option<Wrong>> {
    let (&[b, c, h, w], &[of_b, of_c, of_h, of_w]) = (node.dims(), x.dims()) else {
        return Ok(None);
    };
    if (b, c) != (of_b, of_c) || of_h < h || of_w < w || h == 0 || w == 0 {
        return Ok(None);
    }
    let wanted = sample(node)?;
    let x = x.detach().narrow(0, 0, 1)?;
    for down in kernels(of_h, h) {
        for across in kernels(of_w, w) {
            if (down, across) == (1, 1) {
                continue;
            }
            let largest = sample(&x.max_pool2d((down, across))?)?;
            let mean = sample(&x.avg_pool2d((down, across))?)?;
            // If all elements of each window are equal, maximum and mean can't be told apart.
            if largest == mean {
                continue;
            }
            if wanted == largest {
                return Ok(Some(MAX_POOL));
            }
            let has_rest = of_h % down != 0 || of_w % across != 0;
            if has_rest && wanted == mean {
                return Ok(Some(AVG_POOL));
            }
        }
    }
    Ok(None)
}

/// Returns the window sizes that reduce length `from` to length `to`.
fn kernels(from: usize, to: usize) -> impl Iterator<Item = usize> + Clone {
    (1..=from).filter(move |side| from / side == to)
}

/// Whether a 1D convolution computed `node`; `before` are its predecessors in the graph.
fn convolution(node: &Tensor, before: &[&Tensor], inputs: &Tensor) -> Result<Option<Wrong>> {
    let [kernel, rest @ ..] = before else {
        return Ok(None);
    };
    let (&[_, channels, length], &[outputs, of_channels, taps]) = (node.dims(), kernel.dims())
    else {
        return Ok(None);
    };
    if channels != outputs || !kernel.is_variable() || taps == 0 {
        return Ok(None);
    }
    let wanted = sample(node)?;
    for x in rest.first().copied().into_iter().chain([inputs]) {
        let &[batch, from_channels, from] = x.dims() else {
            continue;
        };
        if batch != node.dims()[0] || from_channels != of_channels || x.dtype() != node.dtype() {
            continue;
        }
        let x = x.detach().narrow(0, 0, 1)?;
        for (padding, stride, dilation) in settings(from, length, taps) {
            let made = x.conv1d(&kernel.detach(), padding, stride, dilation, 1)?;
            if are_near(&sample(&made)?, &wanted) {
                return Ok(Some(CONV1D));
            }
        }
    }
    Ok(None)
}

/// Returns (padding, stride, dilation) for which `taps` reduce length `from` to length `to`.
fn settings(from: usize, to: usize, taps: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    const MOST: usize = 4;
    (1..=MOST).flat_map(move |dilation| {
        let reach = dilation * (taps - 1) + 1;
        (1..=MOST).flat_map(move |stride| {
            let fits = move |padding: &usize| {
                let room = (from + 2 * padding).checked_sub(reach);
                room.is_some_and(|room| room / stride + 1 == to)
            };
            (0..=reach)
                .filter(fits)
                .map(move |padding| (padding, stride, dilation))
        })
    })
}

/// Returns the elements of the first sample.
fn sample(tensor: &Tensor) -> Result<Vec<f64>> {
    let first = tensor.detach().narrow(0, 0, 1)?;
    super::numbers(&first)
}

/// Whether the values are equal up to rounding and not all 0.
fn are_near(found: &[f64], wanted: &[f64]) -> bool {
    let size = wanted.iter().fold(0.0, |size: f64, x| size.max(x.abs()));
    let mut pairs = found.iter().zip(wanted);
    size > 0.0
        && found.len() == wanted.len()
        && pairs.all(|(found, wanted)| (found - wanted).abs() <= 1e-4 * size)
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;
    use sconce_ops::{self as ops, PoolKind, Windows};

    /// Standard normal values.
    fn normal_numbers(seed: u64, shape: impl Into<candle_core::Shape>) -> Result<Tensor> {
        let shape = shape.into();
        let mut stream = sconce_ops::random::stream(seed, "tests of gradients", 0, 0);
        let numbers = (0..shape.elem_count()).map(|_| stream.normal() as f32);
        let numbers: Vec<f32> = numbers.collect();
        Tensor::from_vec(numbers, shape, &sconce_ops::device::for_tests())
    }

    fn var(seed: u64, shape: &[usize]) -> Var {
        let numbers = normal_numbers(seed, shape).expect("numbers");
        Var::from_tensor(&numbers).expect("a variable")
    }

    fn names(loss: Result<Tensor>, inputs: &Tensor) -> Vec<&'static str> {
        let loss = loss.and_then(|y| y.sqr()?.sum_all()).expect("a loss");
        let found = wrong_operations(&loss, inputs, &ops::recorded()).expect("a walk");
        found.iter().map(|wrong| wrong.operation).collect()
    }

    type Op<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor>;

    #[test]
    fn poolings_with_wrong_gradients_are_found() {
        let inputs = normal_numbers(1, (2, 1, 9, 9)).expect("numbers");
        let kernel = var(2, &[3, 1, 2, 2]);
        let hidden = || inputs.conv2d(&kernel, 0, 1, 1, 1)?.tanh();
        let cases: [(Op<'_>, &[&str]); 8] = [
            (&|x| x.max_pool2d(2), &["max_pool2d"]),
            (&|x| x.max_pool2d(3)?.exp(), &["max_pool2d"]),
            (&|x| x.max_pool2d((2, 1)), &["max_pool2d"]),
            (&|x| x.avg_pool2d(3), &["avg_pool2d"]),
            (&|x| x.max_pool2d(2)?.max_pool2d(2), &["max_pool2d"]),
            // These have correct gradients.
            (&|x| x.avg_pool2d(2), &[]),
            (&|x| x.max_pool2d(1), &[]),
            (
                &|x| {
                    x.reshape((2, 3, 4, 2, 4, 2))?
                        .max(5)?
                        .max(3)?
                        .narrow(2, 0, 2)
                },
                &[],
            ),
        ];
        for (index, (op, expected)) in cases.into_iter().enumerate() {
            assert_eq!(
                names(hidden().and_then(|x| op(&x)), &inputs),
                expected,
                "{index}"
            );
        }
        let _recording = ops::record();
        let ours = |x: &Tensor| {
            let windows = || Windows::sliding(8, 2, 2, 0).expect("windows");
            ops::pool2d(x, PoolKind::Max, windows(), windows())
        };
        assert!(names(hidden().and_then(|x| ours(&x)), &inputs).is_empty());
    }

    #[test]
    fn convolutions_of_one_dimension_are_found() {
        let inputs = normal_numbers(1, (2, 3, 12)).expect("numbers");
        let (first, second) = (var(2, &[4, 3, 3]), var(3, &[4, 4, 2]));
        for (padding, stride, dilation) in [(0, 1, 1), (1, 1, 1), (0, 2, 1), (2, 1, 2)] {
            let y = inputs.conv1d(&first, padding, stride, dilation, 1);
            assert_eq!(names(y, &inputs), ["conv1d"]);
        }
        let deep = inputs
            .conv1d(&first, 0, 1, 1, 1)
            .and_then(|x| x.tanh()?.conv1d(&second, 0, 1, 1, 1));
        assert_eq!(names(deep, &inputs), ["conv1d"]);
        let kernel = var(4, &[2, 12, 5]);
        assert!(names(inputs.matmul(&kernel), &inputs).is_empty());
    }
}
