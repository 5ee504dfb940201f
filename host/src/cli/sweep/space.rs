//! The values that trials have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::document::SweepDocument;
use crate::manifest::json_path;
use crate::random;

/// Largest number of trials.
const MOST: usize = 10_000;

/// A run of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    /// From 1.
    pub(super) trial: usize,
    /// Its values, by their path in the manifest.
    pub(super) set: BTreeMap<String, Value>,
}

impl Trial {
    /// Its values as `--set` takes them.
    pub(super) fn assignments(&self) -> Vec<String> {
        let values = self.set.iter();
        values
            .map(|(path, value)| format!("{path}={value}"))
            .collect()
    }
}

/// What is wrong with the values of a sweep, with the path of each.
pub(super) fn problems(sweep: &SweepDocument) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    let at = |part: &str, path: &str| json_path::member(part, path);
    for (path, values) in &sweep.grid {
        if values.is_empty() {
            problems.push((at("grid", path), "it has no values".to_owned()));
        }
        if sweep.random.contains_key(path) {
            problems.push((at("grid", path), "`random` has the same path".to_owned()));
        }
    }
    for (path, distribution) in &sweep.random {
        if let Some(problem) = distribution.problem() {
            problems.push((at("random", path), problem));
        }
    }
    let paths = || sweep.grid.keys().chain(sweep.random.keys());
    for path in paths().filter(|path| ["name", "output", "threads"].contains(&path.as_str())) {
        let part = if sweep.grid.contains_key(path) {
            "grid"
        } else {
            "random"
        };
        problems.push((
            at(part, path),
            format!("`{path}` is set by the sweep itself"),
        ));
    }
    if sweep.halving.is_some() && paths().any(|path| path == "train.epochs" || path == "train") {
        let problem = "trials of different lengths can't be compared on the way: `train.epochs` is one of the values";
        problems.push(("halving".to_owned(), problem.to_owned()));
    }
    let combinations = combinations(sweep);
    let count = match (sweep.random.is_empty(), sweep.trials) {
        (true, None) if sweep.grid.is_empty() => {
            problems.push((
                String::new(),
                "nothing is varied: give `grid` or `random`".to_owned(),
            ));
            return problems;
        }
        (false, None) => {
            problems.push((
                "random".to_owned(),
                "give `trials`, the number of draws".to_owned(),
            ));
            return problems;
        }
        (true, Some(trials)) if combinations != Some(trials) => {
            let has =
                combinations.map_or_else(|| "very many".to_owned(), |count| count.to_string());
            let problem =
                format!("`grid` has {has} combinations; leave `trials` out to try them all");
            problems.push(("trials".to_owned(), problem));
            return problems;
        }
        (_, Some(trials)) => Some(trials),
        (true, None) => combinations,
    };
    if count.is_none_or(|count| count > MOST) {
        problems.push((
            "grid".to_owned(),
            format!("more than {MOST} trials, the limit"),
        ));
    }
    problems
}

/// Number of combinations of the grid's values; `None` if it is too large to say.
fn combinations(sweep: &SweepDocument) -> Option<usize> {
    let mut counts = sweep.grid.values().map(Vec::len);
    counts.try_fold(1_usize, usize::checked_mul)
}

/// The trials of a sweep without [`problems`]. Each value is drawn by seed, path and number of the trial: more trials or
/// paths leave it as it is. The grid's combinations take turns, the last path fastest.
pub(super) fn trials(sweep: &SweepDocument) -> Vec<Trial> {
    let combinations = combinations(sweep).unwrap_or(1).max(1);
    let count = sweep.trials.unwrap_or(combinations);
    (0..count)
        .map(|index| trial(sweep, index, index % combinations))
        .collect()
}

fn trial(sweep: &SweepDocument, index: usize, combination: usize) -> Trial {
    let mut set = BTreeMap::new();
    let mut rest = combination;
    for (path, values) in sweep.grid.iter().rev() {
        let count = values.len().max(1);
        if let Some(value) = values.get(rest % count) {
            set.insert(path.clone(), value.clone());
        }
        rest /= count;
    }
    for (path, distribution) in &sweep.random {
        let mut stream = random::stream(sweep.seed, &format!("sweep {path}"), index as u64, 0);
        set.insert(path.clone(), distribution.draw(&mut stream));
    }
    Trial {
        trial: index + 1,
        set,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sweep(document: &Value) -> SweepDocument {
        serde_json::from_value(document.clone()).expect("a sweep")
    }

    #[test]
    fn a_grid_is_every_combination_once() {
        let sweep = sweep(&json!({"run": "r", "metric": "val/loss",
            "grid": {"a": [1, 2], "b": ["x", "y", "z"]}}));
        assert_eq!(problems(&sweep), []);
        let all: Vec<String> = trials(&sweep)
            .iter()
            .map(|trial| trial.assignments().join(" "))
            .collect();
        let expected = [
            r#"a=1 b="x""#,
            r#"a=1 b="y""#,
            r#"a=1 b="z""#,
            r#"a=2 b="x""#,
            r#"a=2 b="y""#,
            r#"a=2 b="z""#,
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn draws_stay_when_trials_or_paths_are_added() {
        let mut document = json!({"run": "r", "metric": "val/loss", "trials": 40, "seed": 3, "random": {
            "lr": {"log": [1e-4, 1e-1]}, "width": {"integer": [-2, 5]}, "share": {"uniform": [0.5, 0.75]}, "kind": {"of": ["a", [1]]}}});
        let first = trials(&sweep(&document));
        for trial in &first {
            let number = |path: &str| trial.set[path].as_f64().expect("a number");
            assert!((1e-4..=1e-1).contains(&number("lr")), "{trial:?}");
            assert!((-2.0..=5.0).contains(&number("width")), "{trial:?}");
            assert!((0.5..=0.75).contains(&number("share")), "{trial:?}");
        }
        let widths: std::collections::BTreeSet<i64> = first
            .iter()
            .filter_map(|trial| trial.set["width"].as_i64())
            .collect();
        assert_eq!(widths, (-2..=5).collect(), "all of them in 40 draws");
        document["trials"] = json!(50);
        document["random"]["more"] = json!({"of": [true]});
        let more = trials(&sweep(&document));
        for (trial, other) in first.iter().zip(&more) {
            assert!(
                trial
                    .set
                    .iter()
                    .all(|(path, value)| other.set[path] == *value)
            );
        }
        assert_eq!(more.len(), 50);
    }

    #[test]
    fn values_that_can_t_be_are_refused() {
        for (part, path, problem) in [
            (
                json!({"trials": 2, "random": {"a": {"log": [0.0, 1.0]}}}),
                "random.a",
                "more than 0",
            ),
            (
                json!({"trials": 2, "random": {"a": {"uniform": [1.0, 1.0]}}}),
                "random.a",
                "not below",
            ),
            (
                json!({"trials": 2, "random": {"a": {"of": []}}}),
                "random.a",
                "no values",
            ),
            (json!({"random": {"a": {"of": [1]}}}), "random", "`trials`"),
            (
                json!({"grid": {"a": [1, 2]}, "trials": 3}),
                "trials",
                "2 combinations",
            ),
            (json!({"grid": {"a": []}}), "grid.a", "no values"),
            (
                json!({"grid": {"output": ["x"]}}),
                "grid.output",
                "by the sweep itself",
            ),
            (json!({}), "", "nothing is varied"),
            (
                json!({"grid": {"train.epochs": [1, 2]}, "halving": {"first": 1}}),
                "halving",
                "lengths",
            ),
        ] {
            let mut document = json!({"run": "r", "metric": "val/loss"});
            for (key, value) in part.as_object().expect("an object") {
                document[key] = value.clone();
            }
            let found = problems(&sweep(&document));
            let is_told = |(at, text): &(String, String)| at == path && text.contains(problem);
            assert!(found.iter().any(is_told), "{part}: {found:?}");
        }
    }
}
