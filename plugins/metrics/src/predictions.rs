//! The `predictions` hook: target and prediction of each sample, as a table.
//!
//! `{"hook": "predictions", "config": {"phases": ["test"], "scores": "probabilities"}}`

use std::path::PathBuf;

use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;
use sconce_plugin_api::spreadsheet;

use crate::classes::{self, Classified, Shown, sigmoid, softmax};
use crate::contributions::{Contributions, are_divided, writes_files};
use crate::numbers;
use crate::passes::{self, Keeps, Pass};
use crate::phases::{self, ByPhase, PhaseName};
use crate::variables::{self, Variable};

/// Contents and location of the tables.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Phases whose samples are written. Default `val` and `test`.
    phases: Vec<PhaseName>,
    /// Which passes' tables are kept. Default `latest`.
    files: Keeps,
    /// First training epoch that is written, at least 0; 0 is an initial validation. Default 0.
    start_from: u64,
    /// Columns with the outputs after the prediction, one per class. Default `none`.
    scores: Scores,
    /// Whether classes are written by name instead of number. Default false.
    names: bool,
    /// Whether only wrong predictions are written. Default false.
    only_wrong: bool,
    /// Variable with the model's outputs: (…, classes), one logit of yes against no per target, or numbers
    /// in the targets' shape. Default `outputs`.
    outputs: String,
    /// Variable with the targets: classes, or numbers in the outputs' shape. Default `targets`.
    targets: String,
    /// Whether classes or numbers are predicted. Default (null): numbers if the task has no classes,
    /// otherwise classes.
    kind: Option<Kind>,
    /// For one logit: the logit above which yes is predicted. Default 0, a probability of one half.
    threshold: f64,
    /// Variable of the targets' shape that is 0 at positions to leave out, such as padding after a
    /// sequence. Default (null): none.
    mask: Option<String>,
    /// Target value of positions to leave out. Default (null): none.
    ignore_index: Option<i64>,
    /// Column separator: one ASCII character other than a quote or a line break. Default: a comma.
    delimiter: char,
    /// Directory for the tables, `predictions-PHASE.csv`, inside the run directory. Default: the run
    /// directory itself.
    directory: PathBuf,
}

/// Which of the outputs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Scores {
    /// None.
    None,
    /// The unchanged outputs.
    Logits,
    /// Class probabilities: the softmax of the outputs, or the logistic function of a single one.
    Probabilities,
    /// Only the probability of the predicted class.
    Confidence,
}

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Classes.
    Classes,
    /// Numbers.
    Numbers,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            phases: vec![PhaseName::Val, PhaseName::Test],
            files: Keeps::Latest,
            start_from: 0,
            scores: Scores::None,
            names: false,
            only_wrong: false,
            outputs: "outputs".to_owned(),
            targets: "targets".to_owned(),
            kind: None,
            threshold: 0.0,
            mask: None,
            ignore_index: None,
            delimiter: ',',
            directory: PathBuf::new(),
        }
    }
}

impl Config {
    fn check(&self) -> Result<()> {
        if !self.delimiter.is_ascii() || matches!(self.delimiter, '"' | '\n' | '\r' | '\0') {
            bail!(
                "`delimiter` must be one ASCII character, no quote and no end of line, found {:?}",
                self.delimiter
            );
        }
        if self.kind == Some(Kind::Numbers) && self.scores != Scores::None {
            bail!("`scores` are of classes; numbers are their own prediction");
        }
        Ok(())
    }
}

/// See the [module](self).
pub(crate) struct Predictions {
    config: Config,
    directory: PathBuf,
    outputs: Variable,
    targets: Variable,
    /// Names of the classes.
    names: Vec<String>,
    kind: Kind,
    batch: Classified,
    shown: Shown,
    shares: Vec<f64>,
    /// Table of the current pass; empty before its first row.
    tables: ByPhase<String>,
    /// Where batches are divided among ranks.
    contributions: Contributions<Lines>,
}

/// Lines of a batch, for a table.
#[derive(Debug, Serialize, Deserialize)]
struct Lines {
    header: String,
    rows: String,
}

impl Predictions {
    fn header(&self) -> Vec<String> {
        let mut header = vec!["id".to_owned()];
        if self.batch.positions != 1 {
            header.push("position".to_owned());
        }
        header.extend(["target", "prediction"].map(str::to_owned));
        let what = match self.config.scores {
            Scores::None => return header,
            Scores::Confidence => {
                header.push("confidence".to_owned());
                return header;
            }
            Scores::Logits => "logit",
            Scores::Probabilities => "probability",
        };
        if self.batch.width == 1 {
            header.push(what.to_owned());
        } else {
            let names = classes::names(&self.names, self.batch.width);
            header.extend(names.iter().map(|name| format!("{what}_{name}")));
        }
        header
    }

    /// Returns the table row for a row of the batch; `None` if it is left out.
    fn row(&mut self, id: u64, place: usize) -> Result<Option<Vec<String>>> {
        let batch = &self.batch;
        let target = batch.target(place)?;
        let prediction = batch.predictions.get(place).copied().unwrap_or(0);
        if !self.shown.has(place, batch) || (self.config.only_wrong && target == prediction) {
            return Ok(None);
        }
        let mut row = vec![id.to_string()];
        if batch.positions != 1 {
            row.push((place % batch.positions.max(1)).to_string());
        }
        let name = |class: usize| match self.names.get(class) {
            Some(name) if self.config.names => name.clone(),
            _ => class.to_string(),
        };
        row.extend([name(target), name(prediction)]);
        let logits = batch.row(place);
        // Values nearly always come from `f32`, so the shortest `f32` form reproduces them.
        let text = |number: &f64| (*number as f32).to_string();
        if self.config.scores == Scores::Logits {
            row.extend(logits.iter().map(text));
        } else if let (&[logit], true) = (logits, self.config.scores != Scores::None) {
            let yes = sigmoid(logit);
            let is_own = self.config.scores == Scores::Confidence && prediction == 0;
            row.push(text(&if is_own { 1.0 - yes } else { yes }));
        } else if self.config.scores != Scores::None {
            softmax(logits, &mut self.shares);
            match self.config.scores {
                Scores::Confidence => row.extend(self.shares.get(prediction).map(text)),
                _ => row.extend(self.shares.iter().map(text)),
            }
        }
        Ok(Some(row))
    }

    fn class_rows(&mut self, ids: &[u64]) -> Result<Vec<Vec<String>>> {
        let mut rows = vec![self.header()];
        let positions = self.batch.positions.max(1);
        for place in 0..self.batch.predictions.len() {
            if !self.shown.has(place, &self.batch) {
                continue;
            }
            let id = ids.get(place / positions).copied().unwrap_or(0);
            rows.extend(self.row(id, place)?);
        }
        Ok(rows)
    }

    /// Adds a batch's lines to the table of the pass.
    fn add(&mut self, phase: Phase, batch: &Lines) {
        if let Some(table) = self.tables.of(phase) {
            if table.is_empty() {
                table.push_str(&batch.header);
            }
            table.push_str(&batch.rows);
        }
    }

    /// Lines for the samples of the current batch.
    fn read(&mut self, task: &At<'_, impl HasBatch>) -> Result<Lines> {
        let rows = self.read_rows(task)?;
        let (header, rows) = rows.split_at(rows.len().min(1));
        let delimiter = self.config.delimiter as u8;
        Ok(Lines {
            header: lines(header, delimiter)?,
            rows: lines(rows, delimiter)?,
        })
    }

    /// The header, and rows for the samples of the current batch.
    fn read_rows(&mut self, task: &At<'_, impl HasBatch>) -> Result<Vec<Vec<String>>> {
        let ids: Vec<u64> = if let Ok(indices) = task.sample_indices() {
            indices.elements::<u32>()?.map(u64::from).collect()
        } else {
            // Without indices from the host, samples are numbered in the order in which they arrive.
            let first = task.batch().saturating_sub(1) * task.batch_size();
            (first..first + task.batch_size()).collect()
        };
        if self.kind == Kind::Numbers {
            let (Some(outputs), Some(targets)) =
                (self.outputs.tensor(task)?, self.targets.tensor(task)?)
            else {
                bail!("`outputs` and `targets` must be tensors");
            };
            return rows_of_numbers(&ids, &outputs, &targets);
        }
        let threshold = self.config.threshold;
        self.batch
            .read_from(&mut self.outputs, &mut self.targets, task, threshold)?;
        self.shown.read(task, self.batch.targets.len())?;
        self.class_rows(&ids)
    }

    /// Returns whether the current pass is written.
    fn is_due(&self, task: &TaskView<'_>) -> bool {
        // A training epoch counts once it is completed.
        let epoch = task.epoch() + u64::from(task.phase() == Phase::Train);
        phases::has(&self.config.phases, task.phase()) && epoch >= self.config.start_from
    }
}

/// Returns the header, and a row for each sample: its target numbers and its predicted numbers.
fn rows_of_numbers(
    ids: &[u64],
    outputs: &Tensor<'_>,
    targets: &Tensor<'_>,
) -> Result<Vec<Vec<String>>> {
    if outputs.len() != targets.len() {
        bail!(
            "`{}` of the shape {:?} do not fit `{}` of the shape {:?}",
            outputs.name(),
            outputs.shape(),
            targets.name(),
            targets.shape()
        );
    }
    let (mut predicted, mut expected) = (Vec::new(), Vec::new());
    numbers::add(outputs, &mut predicted)?;
    numbers::add(targets, &mut expected)?;
    let width = (expected.len() / ids.len().max(1)).max(1);
    let mut header = vec!["id".to_owned()];
    for what in ["target", "prediction"] {
        let columns = (0..width).map(|column| match width {
            1 => what.to_owned(),
            _ => format!("{what}_{column}"),
        });
        header.extend(columns);
    }
    let mut rows = vec![header];
    let samples = expected.chunks(width).zip(predicted.chunks(width));
    for (id, (expected, predicted)) in ids.iter().zip(samples) {
        let numbers = expected.iter().chain(predicted);
        let mut row = vec![id.to_string()];
        row.extend(numbers.map(|number| (*number as f32).to_string()));
        rows.push(row);
    }
    Ok(rows)
}

fn lines(rows: &[Vec<String>], delimiter: u8) -> Result<String> {
    let mut writer = csv::WriterBuilder::new()
        .delimiter(delimiter)
        .from_writer(Vec::new());
    for row in rows {
        // Class names come from the data.
        writer.write_record(
            row.iter()
                .map(|cell| spreadsheet::escaped(cell).into_owned()),
        )?;
    }
    let text = writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8(text)?)
}

#[hook(
    name = "predictions",
    about = "Writes target and prediction of each sample, and what speaks for it, into a table.",
    priority = LOW,
    ranks = "all",
    state = tables,
    reads = [batch, inputs, targets, outputs, sample_indices, ranks],
    optional = sample_indices
)]
impl Hook for Predictions {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        config.check()?;
        let indices = "indices".to_owned();
        let names = [
            Some(&config.outputs),
            Some(&config.targets),
            config.mask.as_ref(),
            Some(&indices),
        ];
        variables::declare(setup, names.into_iter().flatten().map(String::as_str))?;
        Ok(Predictions {
            directory: passes::directory(setup, &config.directory)?,
            outputs: Variable::new(&config.outputs),
            targets: Variable::new(&config.targets),
            names: Vec::new(),
            kind: config.kind.unwrap_or(Kind::Classes),
            batch: Classified::default(),
            shown: Shown::new(config.mask.as_deref(), config.ignore_index),
            shares: Vec::new(),
            tables: ByPhase::default(),
            contributions: Contributions::default(),
            config,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.names = task.facts()?.classes;
        if self.config.kind.is_none() && self.names.is_empty() {
            self.kind = Kind::Numbers;
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if !self.is_due(task) {
            return Ok(());
        }
        // A batch skipped by a hook has no outputs.
        let own = task
            .losses()
            .is_known()
            .then(|| self.read(task))
            .transpose()?;
        if are_divided(task) {
            for batch in self.contributions.exchange(task, own)? {
                self.add(task.phase(), &batch);
            }
        } else if let Some(own) = own {
            self.add(task.phase(), &own);
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let name = Pass::of(task).name(self.config.files);
        let Some(table) = self
            .tables
            .of(task.phase())
            .filter(|table| !table.is_empty())
        else {
            return Ok(());
        };
        if writes_files(task) {
            let path = path_inside(&self.directory, format!("predictions-{name}.csv"))?;
            write_atomically(path, &*table)?;
        }
        table.clear();
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        self.contributions = Contributions::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_makes_no_table_is_refused() {
        let refusal = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config
                .check()
                .err()
                .map(|error| error.message().to_owned())
                .unwrap_or_default()
        };
        assert_eq!(refusal(|_| ()), "");
        assert!(refusal(|config| config.delimiter = '"').contains("`delimiter`"));
        let numbers = |config: &mut Config| {
            config.kind = Some(Kind::Numbers);
            config.scores = Scores::Logits;
        };
        assert!(refusal(numbers).contains("`scores`"));
    }

    #[test]
    fn rows_are_quoted_where_they_must_be() {
        let rows = [vec!["1".to_owned(), "a,b".to_owned()]];
        assert_eq!(lines(&rows, b',').expect("lines"), "1,\"a,b\"\n");
        assert_eq!(lines(&rows, b'\t').expect("lines"), "1\ta,b\n");
    }

    #[test]
    fn samples_have_rows_with_target_prediction_and_scores() -> std::result::Result<(), Failed> {
        // The first sample of the second batch is taken for the wrong class.
        let run = ScriptedRun::new()
            .epochs(1)
            .targets(|batch| vec![batch as u32 % 2, 0])
            .outputs(|_batch| vec![0.5, 0.25, 1.5, -2.0]);
        let seen = run.drive::<Predictions>(json!({"scores": "logits", "names": true}))?;
        assert_eq!(
            seen.file("predictions-val.csv").unwrap(),
            "id,target,prediction,logit_no,logit_yes\n\
         0,no,no,0.5,0.25\n1,no,no,1.5,-2\n2,yes,no,0.5,0.25\n3,no,no,1.5,-2\n"
        );
        assert!(
            seen.file("predictions-train.csv").is_err(),
            "training is not written"
        );
        let config = json!({"only_wrong": true, "delimiter": ";", "directory": "tables"});
        let seen = run.drive::<Predictions>(config)?;
        assert_eq!(
            seen.file("tables/predictions-val.csv").unwrap(),
            "id;target;prediction\n2;1;0\n"
        );
        let seen = run.drive::<Predictions>(json!({"start_from": 2}))?;
        assert!(seen.file("predictions-val.csv").is_err(), "it begins later");
        run.check_resume::<Predictions>(json!({"phases": ["train"]}))
    }
}
