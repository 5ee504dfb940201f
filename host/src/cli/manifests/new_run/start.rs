//! Task, model and length of a new run: from arguments, questions, or defaults that suit the data.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::arguments::{ModelKind, NewRunArgs, TaskKind};
use super::arrays::ArrayPlan;
use super::goal::Goal;
use super::images::ImagePlan;
use super::look;
use super::questions::Questions;
use super::table::TablePlan;
use crate::diagnostic::Diagnostic;

/// Data and model to train, and for how long.
#[derive(Debug, PartialEq)]
pub(super) struct NewRunPlan {
    data: Data,
    model: ModelKind,
    epochs: u64,
}

#[derive(Debug, PartialEq)]
enum Data {
    Digits,
    Images(ImagePlan),
    Table(TablePlan),
    Arrays(ArrayPlan),
    Text(PathBuf),
}

impl NewRunPlan {
    /// # Errors
    ///
    /// If the data does not exist, or is not of the stated kind.
    pub(super) fn choose<R: BufRead, W: Write>(
        arguments: &NewRunArgs,
        questions: &mut Questions<R, W>,
    ) -> Result<NewRunPlan, Diagnostic> {
        let (task, path) = task_and_path(arguments, questions)?;
        let data = Data::choose(task, path, arguments, questions)?;
        let models = data.models();
        let model = if let Some(model) = arguments.model {
            model
        } else {
            let default = models.first().copied().unwrap_or(ModelKind::Mlp);
            let names: Vec<String> = models.iter().map(name).collect();
            let question = format!("Which model: {}?", names.join(", "));
            choice(questions, &question, &default)?
        };
        if !models.contains(&model) {
            let names: Vec<String> = models
                .iter()
                .map(|model| format!("`{}`", name(model)))
                .collect();
            let problem = format!("the model `{}` does not fit this data", name(&model));
            return Err(Diagnostic::new(problem).hint(format!("choose {}", names.join(" or "))));
        }
        let epochs = match arguments.epochs {
            Some(epochs) => epochs,
            None => questions
                .ask(
                    "How many passes over the training data?",
                    &data.epochs().to_string(),
                    |text| {
                        let epochs = text.parse::<u64>().ok().filter(|epochs| *epochs > 0);
                        epochs.ok_or_else(|| format!("{text:?} is not a whole number from 1 on"))
                    },
                )
                .map_err(Diagnostic::new)?,
        };
        Ok(NewRunPlan {
            data,
            model,
            epochs,
        })
    }

    /// What was found in the data and why it is used so, a line each.
    pub(super) fn findings(&self) -> Vec<String> {
        match &self.data {
            Data::Digits | Data::Text(_) => Vec::new(),
            Data::Images(images) => images.findings(),
            Data::Table(table) => table.findings.clone(),
            Data::Arrays(arrays) => arrays.findings.clone(),
        }
    }

    /// Metric by which the best checkpoint is chosen.
    pub(super) fn best(&self) -> &'static str {
        self.data.goal().best()
    }

    /// Writes the choices into the manifest; `from` converts paths to the form used there.
    pub(super) fn fill(&self, manifest: &mut Value, from: impl Fn(&Path) -> PathBuf) {
        manifest["model"] = match self.model {
            ModelKind::Mlp => json!({"kind": "mlp", "hidden": [128]}),
            ModelKind::Convnet => {
                json!({"kind": "convnet", "channels": [16, 32], "hidden": [128]})
            }
            ModelKind::Resnet => json!({"kind": "resnet"}),
            ModelKind::Gpt => json!({"kind": "gpt", "layers": 4, "heads": 4, "width": 128}),
        };
        manifest["data"] = match &self.data {
            Data::Digits => json!({"kind": "synthetic-digits"}),
            Data::Images(images) => images.data(from),
            Data::Table(table) => table.data(&from(&table.file)),
            Data::Arrays(arrays) => arrays.data(from),
            Data::Text(file) => json!({
                "kind": "text",
                "file": from(file),
                "unit": "byte",
                "context": 64,
                "val": {"fraction": 0.1},
            }),
        };
        if let Some(metrics) = self.data.goal().metrics() {
            manifest["metrics"] = metrics;
        }
        let is_table = matches!(self.data, Data::Table(_));
        let rate = if is_table { 0.01 } else { 0.001 };
        manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": rate});
        manifest["train"] = json!({
            "epochs": self.epochs,
            "batch_size": self.data.batch_size(),
        });
    }
}

impl Data {
    fn choose<R: BufRead, W: Write>(
        task: TaskKind,
        path: Option<PathBuf>,
        arguments: &NewRunArgs,
        questions: &mut Questions<R, W>,
    ) -> Result<Data, Diagnostic> {
        let what = match task {
            TaskKind::Digits => return Ok(Data::Digits),
            TaskKind::Image => "the directory with the images",
            TaskKind::Table => "the table's file",
            TaskKind::Array => "the file with the inputs, NumPy's or safetensors",
            TaskKind::Text => "the text's file",
        };
        let path = match path {
            Some(path) => there(&path).map_err(Diagnostic::new)?,
            None if questions.asks() => questions
                .ask(&format!("Where is {what}?"), "", |text| {
                    there(Path::new(text))
                })
                .map_err(Diagnostic::new)?,
            None => {
                let problem = Diagnostic::new(format!("it is not given where {what} is"));
                return Err(problem.hint(
                    "give its path, `sconce new-run PATH`, or `--task digits` for data without a file",
                ));
            }
        };
        let target = arguments.target.as_deref();
        if arguments.target_kind.is_some() && task != TaskKind::Table {
            return Err(Diagnostic::new("`--target-kind` is for tables"));
        }
        if target.is_some() && !matches!(task, TaskKind::Table | TaskKind::Array) {
            return Err(Diagnostic::new("`--target` is for tables and arrays"));
        }
        match task {
            TaskKind::Image => ImagePlan::of(&path).map(Data::Images),
            TaskKind::Table => TablePlan::choose(&path, arguments, questions).map(Data::Table),
            TaskKind::Array if ending(&path) == "safetensors" => {
                ArrayPlan::of_tensors(&path, target).map(Data::Arrays)
            }
            TaskKind::Array => ArrayPlan::of_npy(&path, target.map(Path::new)).map(Data::Arrays),
            _ if ending(&path) == "jsonl" => Err(rows_of_texts(&path)),
            _ => {
                let start = look::FileStart::of(&path)?;
                if start.bytes.len() < SHORTEST_TEXT {
                    let problem = format!(
                        "`{}` has {} bytes, too few to train and validate on a text",
                        path.display(),
                        start.bytes.len()
                    );
                    return Err(Diagnostic::new(problem));
                }
                Ok(Data::Text(path))
            }
        }
    }

    fn goal(&self) -> Goal {
        match self {
            Data::Digits => Goal::Classes { is_balanced: true },
            Data::Images(images) => images.goal(),
            Data::Table(table) => table.goal,
            Data::Arrays(arrays) => arrays.goal,
            Data::Text(_) => Goal::Tokens,
        }
    }

    /// Models that suit the data, the default first.
    fn models(&self) -> &'static [ModelKind] {
        const CONVOLUTIONS: &[ModelKind] = &[ModelKind::Convnet, ModelKind::Resnet, ModelKind::Mlp];
        /// Side of an image that two convolutions of 5 × 5 with pooling leave something of.
        const SMALLEST: usize = 16;
        let is_small = |[height, width]: [usize; 2]| height.min(width) < SMALLEST;
        match self {
            Data::Digits => &[ModelKind::Mlp, ModelKind::Convnet, ModelKind::Resnet],
            Data::Images(images) if images.size().is_some_and(is_small) => &[ModelKind::Mlp],
            Data::Images(_) => CONVOLUTIONS,
            Data::Arrays(arrays) if arrays.is_image => CONVOLUTIONS,
            Data::Table(_) | Data::Arrays(_) => &[ModelKind::Mlp],
            Data::Text(_) => &[ModelKind::Gpt],
        }
    }

    /// Number of samples, where it is known.
    fn samples(&self) -> Option<usize> {
        match self {
            Data::Digits | Data::Text(_) => None,
            Data::Images(images) => Some(images.samples()),
            Data::Table(table) => Some(table.rows),
            Data::Arrays(arrays) => Some(arrays.samples),
        }
    }

    /// Number of passes: more over few samples.
    fn epochs(&self) -> u64 {
        const FEW: usize = 5000;
        match self.samples() {
            _ if matches!(self, Data::Text(_)) => 1,
            Some(samples) if samples < FEW => 30,
            _ => 10,
        }
    }

    /// Number of samples of a batch, so that an epoch has several.
    fn batch_size(&self) -> u64 {
        match self.samples() {
            _ if matches!(self, Data::Text(_)) => 16,
            Some(..=40) => 4,
            Some(41..=640) => 16,
            _ => 64,
        }
    }
}

/// Number of bytes of which a tenth, for validation, holds a window.
const SHORTEST_TEXT: usize = 1000;

/// Returns the kind of the data, and where they are if that is known.
fn task_and_path<R: BufRead, W: Write>(
    arguments: &NewRunArgs,
    questions: &mut Questions<R, W>,
) -> Result<(TaskKind, Option<PathBuf>), Diagnostic> {
    let path = arguments.data.clone();
    match (arguments.task, path) {
        (Some(task), path) => Ok((task, path)),
        (None, Some(path)) => Ok((guess(&there(&path).map_err(Diagnostic::new)?), Some(path))),
        (None, None) => {
            let read = |text: &str| {
                if let Ok(task) = TaskKind::from_str(text, true) {
                    return Ok((task, None));
                }
                there(Path::new(text)).map(|path| (guess(&path), Some(path)))
            };
            let question = "What is the data: a path, or image, table, array, text, digits?";
            let digits = name(&TaskKind::Digits);
            questions
                .ask(question, &digits, read)
                .map_err(Diagnostic::new)
        }
    }
}

fn name<T: ValueEnum>(value: &T) -> String {
    let possible = value.to_possible_value();
    possible.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Asks for one of a few words.
fn choice<T: ValueEnum, R: BufRead, W: Write>(
    questions: &mut Questions<R, W>,
    question: &str,
    default: &T,
) -> Result<T, Diagnostic> {
    let read = |text: &str| {
        let names: Vec<String> = T::value_variants().iter().map(name).collect();
        T::from_str(text, true).map_err(|_| format!("{text:?} is not one of {}", names.join(", ")))
    };
    questions
        .ask(question, &name(default), read)
        .map_err(Diagnostic::new)
}

/// Guesses the kind of data from a path; a gzipped file is judged by its name without `.gz`.
fn guess(path: &Path) -> TaskKind {
    match ending(path).as_str() {
        _ if path.is_dir() && has_arrays(path) => TaskKind::Array,
        _ if path.is_dir() => TaskKind::Image,
        "csv" | "tsv" => TaskKind::Table,
        "npy" | "safetensors" => TaskKind::Array,
        _ => TaskKind::Text,
    }
}

/// Rows of texts are classified or answered by a model that brings its tokenizer, which nothing here can choose.
fn rows_of_texts(path: &Path) -> Diagnostic {
    let problem = format!(
        "`{}` has rows of texts, for which a manifest also names a tokenizer and a model that goes with it",
        path.display()
    );
    Diagnostic::new(problem).hint(
        "`docs/tutorial-classification.md` and `docs/tutorial-instructions.md` have such manifests whole; `docs/data-tokens.md` says what \
         rows may look like",
    )
}

/// The lower-case extension of a file's name without `.gz`; empty if it has none.
fn ending(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let lower = name.to_lowercase();
    let plain = lower.strip_suffix(".gz").unwrap_or(&lower);
    plain
        .rsplit_once('.')
        .map_or_else(String::new, |(_, ending)| ending.to_owned())
}

/// Whether a directory has NumPy files.
fn has_arrays(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| ending(&path) == "npy")
}

fn there(path: &Path) -> Result<PathBuf, String> {
    if path.as_os_str().is_empty() {
        return Err("a path is needed".to_owned());
    }
    if path.exists() {
        return Ok(path.to_owned());
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Err(format!(
        "there is no `{}` ({})",
        path.display(),
        absolute.display()
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: NewRunArgs,
    }

    #[test]
    fn the_first_answer_may_be_a_path() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("t.csv");
        let rows: Vec<String> = (0..40)
            .map(|row| format!("{row}.5,{}\n", row % 2))
            .collect();
        std::fs::write(&file, format!("y,b\n{}", rows.concat())).expect("written");
        let CommandLine { arguments } = CommandLine::parse_from(["new-run"]);
        // What isn't there is asked for again; the column differs from the likely one; the rest by Enter.
        let answers = format!("nowhere\n{}\nc\nb\n\n\n", file.display());
        let mut shown = Vec::new();
        let mut questions = Questions::new(answers.as_bytes(), &mut shown, true);
        let plan = NewRunPlan::choose(&arguments, &mut questions);
        let plan = plan.unwrap_or_else(|problem| panic!("{problem:?}"));
        let mut manifest = json!({});
        plan.fill(&mut manifest, Path::to_owned);
        assert_eq!(manifest["data"]["target"], "b");
        assert_eq!(manifest["data"]["target_kind"], "classes");
        assert_eq!((plan.model, plan.epochs), (ModelKind::Mlp, 30));
        let shown = String::from_utf8_lossy(&shown).into_owned();
        for words in [
            "there is no `nowhere`",
            "to be learned? [y]",
            "no column `c`",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }
}
