//! Rows and columns of a table, as text.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::number::number;

/// Values that a row can hold: counters and metrics at the end of a pass.
pub(crate) struct Row<'task> {
    /// Completed training epochs.
    pub(crate) epoch: u64,
    /// Completed training batches.
    pub(crate) iteration: u64,
    /// Completed optimizer steps.
    pub(crate) update: u64,
    /// The optimizer's learning rate.
    pub(crate) learning_rate: f64,
    /// Seconds since the start of the run.
    pub(crate) elapsed: f64,
    /// Metrics of the pass, in the order of their first appearance.
    pub(crate) metrics: Vec<(&'task str, f64)>,
}

impl<'task> Row<'task> {
    /// Returns the metrics by name, for fast lookup among possibly thousands.
    pub(crate) fn by_name(&self) -> HashMap<&'task str, f64> {
        self.metrics.iter().copied().collect()
    }
}

/// A column of a table, serialised as its name in the header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) enum Column {
    Epoch,
    Iteration,
    Update,
    LearningRate,
    Elapsed,
    Metric(String),
}

impl Column {
    pub(crate) fn name(&self) -> &str {
        match self {
            Column::Epoch => "epoch",
            Column::Iteration => "iteration",
            Column::Update => "update",
            Column::LearningRate => "learning_rate",
            Column::Elapsed => "elapsed",
            Column::Metric(name) => name,
        }
    }

    /// Returns the text of this column; `None` for a metric without a value. `metrics` are the row's.
    pub(crate) fn cell(
        &self,
        row: &Row<'_>,
        metrics: &HashMap<&str, f64>,
        digits: Option<u8>,
    ) -> Option<String> {
        Some(match self {
            Column::Epoch => row.epoch.to_string(),
            Column::Iteration => row.iteration.to_string(),
            Column::Update => row.update.to_string(),
            Column::LearningRate => number(row.learning_rate, digits),
            Column::Elapsed => number(row.elapsed, digits),
            Column::Metric(name) => number(*metrics.get(name.as_str())?, digits),
        })
    }
}

impl From<String> for Column {
    fn from(name: String) -> Self {
        match name.as_str() {
            "epoch" => Column::Epoch,
            "iteration" => Column::Iteration,
            "update" => Column::Update,
            "learning_rate" => Column::LearningRate,
            "elapsed" => Column::Elapsed,
            _ => Column::Metric(name),
        }
    }
}

impl From<Column> for String {
    fn from(column: Column) -> Self {
        column.name().to_owned()
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the columns of a new table: the counters, then the chosen metrics or all those of `row`.
///
/// A metric with the name of a counter gets no column, as names would be ambiguous.
pub(crate) fn choose(row: &Row<'_>, variables: Option<&[String]>, elapsed: bool) -> Vec<Column> {
    let mut columns = vec![
        Column::Epoch,
        Column::Iteration,
        Column::Update,
        Column::LearningRate,
    ];
    if elapsed {
        columns.push(Column::Elapsed);
    }
    let metrics: Vec<String> = match variables {
        Some(variables) => variables.to_vec(),
        None => row
            .metrics
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .collect(),
    };
    let metrics = metrics.into_iter().map(Column::from);
    columns.extend(metrics.filter(|column| matches!(column, Column::Metric(_))));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'task>(metrics: &[(&'task str, f64)]) -> Row<'task> {
        Row {
            epoch: 2,
            iteration: 282,
            update: 141,
            learning_rate: 1e-3,
            elapsed: 1.5,
            metrics: metrics.to_vec(),
        }
    }

    fn names(columns: &[Column]) -> Vec<&str> {
        columns.iter().map(Column::name).collect()
    }

    #[test]
    fn columns_are_the_counters_and_then_the_metrics() {
        let row = row(&[("loss", 0.5), ("epoch", 9.0), ("accuracy", 0.75)]);
        let all = choose(&row, None, false);
        let counters = ["epoch", "iteration", "update", "learning_rate"];
        assert_eq!(names(&all)[..4], counters);
        assert_eq!(names(&all)[4..], ["loss", "accuracy"]);

        let variables = ["f1", "loss"].map(String::from);
        let chosen = choose(&row, Some(&variables), true);
        assert_eq!(names(&chosen)[4..], ["elapsed", "f1", "loss"]);
    }

    #[test]
    fn cells_are_what_their_columns_say() {
        let row = row(&[("loss", 0.1), ("accuracy", 1.0)]);
        let cases = [
            ("epoch", Some("2")),
            ("iteration", Some("282")),
            ("update", Some("141")),
            ("learning_rate", Some("0.001")),
            ("elapsed", Some("1.5")),
            ("loss", Some("0.1")),
            ("accuracy", Some("1")),
            ("f1", None),
        ];
        for (name, expected) in cases {
            let metrics = row.by_name();
            let cell = Column::from(name.to_owned()).cell(&row, &metrics, None);
            assert_eq!(cell.as_deref(), expected, "{name}");
        }
    }
}
