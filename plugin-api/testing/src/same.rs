//! Comparison of an interrupted and resumed run with an uninterrupted one.

use std::fmt::Debug;

use super::place::CallPosition;
use super::seen::Seen;

/// Describes the first difference; `None` if there is none.
pub(super) fn difference(whole: &Seen, resumed: &Seen) -> Option<String> {
    for ((name, expected), (_, found)) in whole.parameters.iter().zip(&resumed.parameters) {
        if !are_same(expected, found) {
            return Some(format!(
                "the parameter `{name}` is {found:?}, not {expected:?}"
            ));
        }
    }
    if whole.state != resumed.state {
        return Some(format!(
            "the hook's state at the end is {}, not {}",
            String::from_utf8_lossy(&resumed.state),
            String::from_utf8_lossy(&whole.state)
        ));
    }
    if whole.end != resumed.end {
        return Some(format!(
            "the run ends {:?}, not {:?}",
            resumed.end, whole.end
        ));
    }
    let bits = |rates: &[f64]| rates.iter().map(|rate| rate.to_bits()).collect::<Vec<_>>();
    if bits(&whole.learning_rates) != bits(&resumed.learning_rates) {
        return Some(format!(
            "the learning rates are {:?}, not {:?}",
            resumed.learning_rates, whole.learning_rates
        ));
    }
    lists("a request", &whole.asked, &resumed.asked, |one| one.at)
        .or_else(|| lists("a metric", &whole.metrics, &resumed.metrics, |one| one.at))
        .or_else(|| {
            lists(
                "what is published",
                &whole.published,
                &resumed.published,
                |one| one.at,
            )
        })
        .or_else(|| lists("a change", &whole.changes, &resumed.changes, |one| one.at))
}

fn are_same(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(a, b)| a.to_bits() == b.to_bits())
}

/// The first entry that differs, ignoring those that belong to the interruption.
///
/// The `Debug` texts are compared, in which NaN equals NaN.
fn lists<T: Debug>(
    what: &str,
    whole: &[T],
    resumed: &[T],
    at: impl Fn(&T) -> CallPosition,
) -> Option<String> {
    let texts = |list: &[T]| -> Vec<String> {
        let list = list.iter().filter(|one| !at(one).is_of_resuming());
        list.map(|one| format!("{one:?}")).collect()
    };
    let (expected, found) = (texts(whole), texts(resumed));
    let length = expected.len().max(found.len());
    (0..length).find_map(|index| {
        let nothing = "nothing".to_owned();
        let expected = expected.get(index).unwrap_or(&nothing);
        let found = found.get(index).unwrap_or(&nothing);
        (expected != found).then(|| format!("{what} is {found}, not {expected}"))
    })
}
