//! Task, model and length of a new run: from arguments, questions, or defaults that suit the data.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::arguments::{ModelKind, NewRunArgs, TaskKind};
use super::look;
use super::questions::Questions;
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
    Folder(PathBuf),
    Idx {
        train: IdxPair,
        test: Option<IdxPair>,
    },
    Table {
        file: PathBuf,
        target: String,
        delimiter: char,
    },
    Text(PathBuf),
}

#[derive(Debug, PartialEq)]
struct IdxPair {
    images: PathBuf,
    labels: PathBuf,
}

impl NewRunPlan {
    /// # Errors
    ///
    /// If the data does not exist, or is not of the stated kind.
    pub(super) fn choose<R: BufRead, W: Write>(
        arguments: &NewRunArgs,
        questions: &mut Questions<R, W>,
    ) -> Result<NewRunPlan, Diagnostic> {
        let task = if let Some(task) = arguments.task {
            task
        } else {
            let guess = arguments.data.as_deref().map_or(TaskKind::Digits, guess);
            let question = "What is the data: image, table, text, digits?";
            choice(questions, question, &guess)?
        };
        let data = Data::choose(task, arguments, questions)?;
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
            let problem = format!("the model `{}` is none for this data", name(&model));
            return Err(Diagnostic::new(problem).hint(format!("choose {}", names.join(" or "))));
        }
        let default = if matches!(data, Data::Text(_)) { 1 } else { 10 };
        let epochs = match arguments.epochs {
            Some(epochs) => epochs,
            None => questions
                .ask(
                    "How many passes over the training data?",
                    &default.to_string(),
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

    /// Writes the choices into the manifest; `from` converts paths to the form used there.
    pub(super) fn fill(&self, manifest: &mut Value, from: impl Fn(&Path) -> PathBuf) {
        manifest["model"] = match self.model {
            ModelKind::Mlp => json!({"kind": "mlp", "hidden": [128]}),
            ModelKind::Convnet => json!({"kind": "convnet", "channels": [16, 32], "hidden": [128]}),
            ModelKind::Resnet => json!({"kind": "resnet"}),
            ModelKind::Gpt => json!({"kind": "gpt", "layers": 4, "heads": 4, "width": 128}),
        };
        let split = json!({"fraction": 0.1});
        manifest["data"] = match &self.data {
            Data::Digits => json!({"kind": "synthetic-digits"}),
            Data::Folder(directory) => json!({
                "kind": "image-folder",
                "directory": from(directory),
                "size": [32, 32],
                "val": split,
            }),
            Data::Idx { train, test } => {
                let mut data = json!({
                    "kind": "idx",
                    "images": from(&train.images),
                    "labels": from(&train.labels),
                    "val": split,
                });
                if let Some(test) = test {
                    data["test"] =
                        json!({"images": from(&test.images), "labels": from(&test.labels)});
                }
                data
            }
            Data::Table {
                file,
                target,
                delimiter,
            } => {
                let mut data = json!({
                    "kind": "csv",
                    "file": from(file),
                    "target": target,
                    "val": {"fraction": 0.2},
                });
                if *delimiter != ',' {
                    data["delimiter"] = json!(delimiter);
                }
                data
            }
            Data::Text(file) => json!({
                "kind": "text",
                "file": from(file),
                "unit": "byte",
                "context": 64,
                "val": split,
            }),
        };
        let is_table = matches!(self.data, Data::Table { .. });
        let rate = if is_table { 0.01 } else { 0.001 };
        manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": rate});
        manifest["train"] = json!({
            "epochs": self.epochs,
            "batch_size": if self.model == ModelKind::Gpt { 16 } else { 64 },
        });
    }
}

impl Data {
    fn choose<R: BufRead, W: Write>(
        task: TaskKind,
        arguments: &NewRunArgs,
        questions: &mut Questions<R, W>,
    ) -> Result<Data, Diagnostic> {
        if task == TaskKind::Digits {
            return Ok(Data::Digits);
        }
        let what = match task {
            TaskKind::Image => "the directory with the images",
            TaskKind::Table => "the table's file",
            _ => "the text's file",
        };
        let path = match &arguments.data {
            Some(path) => there(path).map_err(Diagnostic::new)?,
            None if questions.asks() => questions
                .ask(&format!("Where is {what}?"), "", |text| {
                    there(Path::new(text))
                })
                .map_err(Diagnostic::new)?,
            None => {
                let problem = Diagnostic::new(format!("it is not given where {what} is"));
                return Err(
                    problem.hint("say `--data PATH`, or `--task digits` for data without a file")
                );
            }
        };
        match task {
            TaskKind::Image => images(&path),
            TaskKind::Table => {
                let header = look::FileStart::of(&path)?.first_line();
                table(&path, &header, arguments.target.as_deref(), questions)
            }
            _ => {
                look::FileStart::of(&path)?;
                Ok(Data::Text(path))
            }
        }
    }

    /// Models that suit the data, the default first.
    fn models(&self) -> &'static [ModelKind] {
        match self {
            Data::Digits => &[ModelKind::Mlp, ModelKind::Convnet, ModelKind::Resnet],
            Data::Folder(_) | Data::Idx { .. } => {
                &[ModelKind::Convnet, ModelKind::Resnet, ModelKind::Mlp]
            }
            Data::Table { .. } => &[ModelKind::Mlp],
            Data::Text(_) => &[ModelKind::Gpt],
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
        T::from_str(text, true).map_err(|_| format!("{text:?} is none of {}", names.join(", ")))
    };
    questions
        .ask(question, &name(default), read)
        .map_err(Diagnostic::new)
}

/// Guesses the kind of data from a path; a gzipped file is judged by its name without `.gz`.
fn guess(path: &Path) -> TaskKind {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        _ if path.is_dir() => TaskKind::Image,
        Some("csv" | "tsv") => TaskKind::Table,
        _ => TaskKind::Text,
    }
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

/// Finds IDX files in a directory, or one subdirectory per class.
fn images(directory: &Path) -> Result<Data, Diagnostic> {
    if !directory.is_dir() {
        let problem = Diagnostic::new(format!("`{}` is not a directory", directory.display()));
        return Err(problem.hint("a directory with one for each class in it, or with IDX files"));
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let named = |words: [&str; 2], others: &str| {
        let is_it = |path: &&PathBuf| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .to_lowercase();
            words.iter().all(|word| name.contains(word))
                && (others.is_empty() || !name.contains(others))
        };
        paths.iter().find(is_it).cloned()
    };
    let pair = |is_test: bool| {
        let find = |what| {
            if is_test {
                named([what, "t10k"], "")
            } else {
                named([what, "-ubyte"], "t10k")
            }
        };
        Some(IdxPair {
            images: find("images-idx3")?,
            labels: find("labels-idx1")?,
        })
    };
    if let Some(train) = pair(false) {
        return Ok(Data::Idx {
            train,
            test: pair(true),
        });
    }
    if paths.iter().any(|path| path.is_dir()) {
        return Ok(Data::Folder(directory.to_owned()));
    }
    let problem = format!(
        "`{}` has neither IDX files nor a directory for each class",
        directory.display()
    );
    Err(Diagnostic::new(problem))
}

/// Reads a table's header and chooses the target column.
fn table<R: BufRead, W: Write>(
    file: &Path,
    header: &str,
    target: Option<&str>,
    questions: &mut Questions<R, W>,
) -> Result<Data, Diagnostic> {
    let count = |delimiter: &char| header.matches(*delimiter).count();
    let delimiter = [',', ';', '\t']
        .into_iter()
        .max_by_key(count)
        .unwrap_or(',');
    let delimiter = if count(&delimiter) == 0 || count(&',') == count(&delimiter) {
        ','
    } else {
        delimiter
    };
    let columns: Vec<&str> = header
        .split(delimiter)
        .map(|column| column.trim().trim_matches('"'))
        .collect();
    let last = columns.last().copied().unwrap_or_default();
    let read = |text: &str| {
        if columns.contains(&text) {
            return Ok(text.to_owned());
        }
        Err(format!(
            "the table has no column `{text}`; it has: {}",
            columns.join(", ")
        ))
    };
    let target = match target {
        Some(target) => read(target),
        None => questions.ask("Which column is to be learned?", last, read),
    };
    Ok(Data::Table {
        file: file.to_owned(),
        target: target.map_err(Diagnostic::new)?,
        delimiter,
    })
}
