//! The minimum of a smooth convex function, by the method L-BFGS (Nocedal, 1980).

use std::collections::VecDeque;

/// Steps from which the curvature is estimated.
const HISTORY: usize = 10;
const MOST_STEPS: usize = 1000;
/// Halvings of a step that does not descend; then rounding errors are all that is left.
const MOST_HALVINGS: usize = 30;

/// Moves `point` to the minimum of `function`, which returns its value at a point and writes its gradient; ends once no element of
/// the gradient is larger than `tolerance`.
pub(super) fn minimise(
    point: &mut [f64],
    tolerance: f64,
    mut function: impl FnMut(&[f64], &mut [f64]) -> f64,
) {
    let mut gradient = vec![0.0; point.len()];
    let mut value = function(point, &mut gradient);
    let mut history = VecDeque::new();
    let (mut next, mut next_gradient) = (point.to_vec(), gradient.clone());
    for _ in 0..MOST_STEPS {
        if gradient.iter().all(|element| element.abs() <= tolerance) {
            return;
        }
        let mut direction = direction(&gradient, &history);
        let mut derivative = dot(&direction, &gradient);
        if derivative >= 0.0 {
            history.clear();
            direction = gradient.iter().map(|element| -element).collect();
            derivative = dot(&direction, &gradient);
        }
        let mut length = if history.is_empty() {
            1.0 / dot(&gradient, &gradient).sqrt()
        } else {
            1.0
        };
        let mut has_descended = false;
        for _ in 0..MOST_HALVINGS {
            for ((next, at), along) in next.iter_mut().zip(&*point).zip(&direction) {
                *next = at + length * along;
            }
            let found = function(&next, &mut next_gradient);
            if found <= value + 1e-4 * length * derivative {
                value = found;
                has_descended = true;
                break;
            }
            length /= 2.0;
        }
        if !has_descended {
            return;
        }
        let moved = difference(&next, point);
        let bent = difference(&next_gradient, &gradient);
        if dot(&moved, &bent) > 0.0 {
            history.push_back((moved, bent));
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
        point.copy_from_slice(&next);
        gradient.copy_from_slice(&next_gradient);
    }
}

/// The gradient times the negative inverse of the estimated curvature: the two loops of L-BFGS.
fn direction(gradient: &[f64], history: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|element| -element).collect();
    let mut factors = Vec::with_capacity(history.len());
    for (moved, bent) in history.iter().rev() {
        let factor = dot(moved, &direction) / dot(moved, bent);
        add(&mut direction, -factor, bent);
        factors.push(factor);
    }
    if let Some((moved, bent)) = history.back() {
        let scale = dot(moved, bent) / dot(bent, bent);
        for element in &mut direction {
            *element *= scale;
        }
    }
    for ((moved, bent), factor) in history.iter().zip(factors.into_iter().rev()) {
        let other = dot(bent, &direction) / dot(moved, bent);
        add(&mut direction, factor - other, moved);
    }
    direction
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}

fn difference(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter()
        .zip(right)
        .map(|(left, right)| left - right)
        .collect()
}

fn add(to: &mut [f64], factor: f64, other: &[f64]) {
    for (to, other) in to.iter_mut().zip(other) {
        *to += factor * other;
    }
}
