//! Predictions of rows that arrive one after the other, in their order, each as soon as it can be had.
//!
//! A thread reads; this one computes, in batches of what has arrived. Batches are filled up to one size, so that a
//! prediction doesn't depend on the rows beside it, and memory doesn't grow with their number.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use candle_core::Tensor;
use serde_json::json;

use crate::allocator;
use crate::cli::show::output;
use crate::cli::trained::prediction_format::{PredictionFormat, print_prediction};
use crate::data::Targets;
use crate::data::csv::{Row, RowError, RowStream, RowTarget};
use crate::data::preprocessing::InputNotes;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::model_directory::TrainedModel;
use crate::predict::{KnownTarget, Sample, predictions};
use crate::session::StartFailure;

/// How long a batch waits for further rows.
const PATIENCE: Duration = Duration::from_millis(50);

/// How predictions are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowOptions {
    pub(super) format: PredictionFormat,
    /// Whether a row that can't be used is left out.
    pub(super) skips_invalid: bool,
}

/// What a row of the stream gave.
type Found = Result<Row, RowError>;

/// Predicts all rows.
pub(super) fn predict_rows<R: BufRead + Send + 'static>(
    model: &TrainedModel,
    rows: RowStream<R>,
    options: RowOptions,
) -> Result<u8, StartFailure> {
    let size = model.batch_size();
    let (sender, receiver) = sync_channel(size);
    // It isn't waited for: it may wait for a line that never comes, after the reader of the predictions has gone.
    let reading = std::thread::Builder::new().name("rows".to_owned());
    let reading = reading.spawn(move || {
        for row in rows {
            if sender.send(row).is_err() {
                return;
            }
        }
    });
    if let Err(error) = reading {
        let problem = format!("a thread that reads rows can't be started: {error}");
        return Err(StartFailure::usage(vec![Diagnostic::new(problem)]));
    }
    let _precision = model.precision().begin(model.device());
    let mut printer = Printer {
        options,
        targets: model.preprocessing().targets(),
        index: 0,
        invalid: 0,
        has_begun: false,
        notes: InputNotes::default(),
    };
    allocator::keep_memory_for_steps();
    while let Some(batch) = next_batch(&receiver, size) {
        if !output::is_open() {
            break;
        }
        printer.predict(model, batch)?;
    }
    Ok(printer.end())
}

/// The rows that have arrived, at least one and at most `size`; none at the end.
fn next_batch(receiver: &Receiver<Found>, size: usize) -> Option<Vec<Found>> {
    let mut batch = vec![receiver.recv().ok()?];
    let until = Instant::now() + PATIENCE;
    while batch.len() < size {
        match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(row) => batch.push(row),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    Some(batch)
}

struct Printer {
    options: RowOptions,
    targets: Targets,
    /// Number of rows so far.
    index: usize,
    /// Number of them that could not be used.
    invalid: usize,
    /// Whether a prediction was printed.
    has_begun: bool,
    notes: InputNotes,
}

impl Printer {
    /// Predicts the rows of a batch and prints them in their order.
    fn predict(&mut self, model: &TrainedModel, batch: Vec<Found>) -> Result<(), StartFailure> {
        let valid: Vec<&Row> = batch.iter().filter_map(|row| row.as_ref().ok()).collect();
        let outputs = match valid.as_slice() {
            [] => Vec::new(),
            rows => predictions(&model.forward(&inputs(model, rows)?)?, &self.targets)?,
        };
        let mut outputs = outputs.into_iter();
        for row in batch {
            let prediction = if row.is_ok() { outputs.next() } else { None };
            match (row, prediction) {
                (Ok(row), Some(prediction)) => {
                    // A table has the same columns in each row.
                    let target = match self.options.format {
                        PredictionFormat::Jsonl => row.target.map(known),
                        PredictionFormat::Csv => None,
                    };
                    let sample = Sample {
                        index: self.index,
                        origin: None,
                        target,
                    };
                    let is_first = !std::mem::replace(&mut self.has_begun, true);
                    let format = self.options.format;
                    print_prediction(format, &prediction, &sample, &self.targets, is_first);
                    self.notes.merge(row.notes);
                }
                (Err(error), _) if self.options.skips_invalid && !error.is_fatal() => {
                    self.leave_out(&error);
                }
                (Err(error), _) => return Err(refused(&error)),
                (Ok(_), None) => {}
            }
            self.index += 1;
        }
        Ok(())
    }
}

impl Printer {
    /// Says on the row's line of the output what is wrong with it; in a table, on standard error.
    fn leave_out(&mut self, error: &RowError) {
        self.invalid += 1;
        match self.options.format {
            PredictionFormat::Jsonl => output::json_line(&json!({
                "index": self.index, "line": error.line, "error": error.problem.to_string(),
            })),
            PredictionFormat::Csv => {
                let warning = format!("a row is left out: {error}");
                output::diagnostics(&[Diagnostic::warning(warning)]);
            }
        }
    }

    fn end(self) -> u8 {
        let notes = self.notes.lines().into_iter().map(Diagnostic::warning);
        output::diagnostics(&notes.collect::<Vec<_>>());
        if self.invalid == 0 {
            return exit::DONE;
        }
        let (invalid, all) = (self.invalid, self.index);
        let problem = format!("{invalid} of {all} rows could not be used");
        output::diagnostics(&[Diagnostic::new(problem)]);
        exit::INVALID_ROWS
    }
}

/// The inputs of rows as a batch of the model's size, filled up with its last row.
fn inputs(model: &TrainedModel, rows: &[&Row]) -> candle_core::Result<Tensor> {
    let last = rows.last().into_iter();
    let filled = rows.iter().chain(last.cycle()).take(model.batch_size());
    let values: Vec<f32> = filled.flat_map(|row| row.inputs.iter().copied()).collect();
    let shape = (model.batch_size(), values.len() / model.batch_size());
    Tensor::from_vec(values, shape, model.device())
}

fn known(target: RowTarget) -> KnownTarget {
    match target {
        RowTarget::Class(class) => KnownTarget::Class(class),
        RowTarget::Numbers(numbers) => KnownTarget::Numbers(numbers),
    }
}

fn refused(error: &RowError) -> StartFailure {
    let problem = Diagnostic::new(error.to_string());
    StartFailure::usage(vec![if error.is_fatal() {
        problem
    } else {
        problem.hint("`--on-invalid skip` leaves out rows that can't be used")
    }])
}
