//! `sconce export`: a trained model for other programs.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sconce_base::files;

use crate::cli::show::output;
use crate::cli::trained::TrainedArgs;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::model_directory::{ExportedDirectory, ModelExportError, TrainedModel};
use crate::nn::onnx::{OnnxError, OnnxModel};
use crate::session::{StartFailure, TaskBuilder};

/// Arguments of `sconce export`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    trained: TrainedArgs,
    /// Format of what is written.
    #[arg(long, value_enum, default_value_t = ExportFormat::Onnx)]
    format: ExportFormat,
    /// File to write, where an existing one is replaced; for other formats a directory, new or empty.
    #[arg(long, value_name = "PATH")]
    output: PathBuf,
}

/// Format of an exported model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// A graph of ONNX's operations (opset 20).
    Onnx,
    /// A directory as `transformers` writes it, of a model of that kind.
    Transformers,
    /// A directory with a module of PyTorch, `model.py`, which is made of the same operations as ONNX's graph, and its weights.
    Pytorch,
}

pub(in crate::cli) fn export(
    arguments: &ExportArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let Some(model) = arguments.trained.model(tasks)? else {
        let problem = "a model that is complete in itself can be exported";
        let hint = "give the directory of a run, or of a checkpoint, in the manifest's place";
        return Err(StartFailure::usage(vec![
            Diagnostic::new(problem).hint(hint),
        ]));
    };
    let written = match arguments.format {
        ExportFormat::Onnx => arguments.write_onnx(&model),
        ExportFormat::Transformers => {
            ExportArgs::write_directory(model.write_transformers(&arguments.output))
        }
        ExportFormat::Pytorch => {
            ExportArgs::write_directory(model.write_pytorch(&arguments.output))
        }
    };
    let written = written.map_err(|problem| arguments.failure(problem))?;
    for (path, bytes) in written {
        output::line(&format!("`{}`: {bytes} bytes", path.display()));
    }
    Ok(exit::DONE)
}

/// Why a model can't be exported.
enum ExportProblem {
    Onnx(OnnxError),
    Directory(ModelExportError),
    File(io::Error),
}

impl From<OnnxError> for ExportProblem {
    fn from(error: OnnxError) -> Self {
        ExportProblem::Onnx(error)
    }
}

/// Files that were written, with their sizes in bytes.
type WrittenFiles = Vec<(PathBuf, u64)>;

impl ExportArgs {
    fn failure(&self, problem: ExportProblem) -> StartFailure {
        let output = self.output.display();
        let diagnostic = match problem {
            ExportProblem::Onnx(error) => Diagnostic::new(error.to_string()),
            ExportProblem::File(error) => {
                Diagnostic::new(format!("can't write `{output}`: {error}"))
            }
            ExportProblem::Directory(error) => {
                let hint = match &error {
                    ModelExportError::Kind => Some(
                        "`--format pytorch` takes models of all kinds, as does `--format onnx`",
                    ),
                    ModelExportError::Exists(_) => {
                        Some("`--output` names a new directory, or an empty one")
                    }
                    _ => None,
                };
                let problem = format!("can't write the model: {error}");
                let diagnostic = Diagnostic::new(problem);
                match hint {
                    Some(hint) => diagnostic.hint(hint),
                    None => diagnostic,
                }
            }
        };
        StartFailure::usage(vec![diagnostic])
    }

    /// Shows what a user of the directory has to know.
    fn write_directory(
        written: Result<ExportedDirectory, ModelExportError>,
    ) -> Result<WrittenFiles, ExportProblem> {
        let written = written.map_err(ExportProblem::Directory)?;
        let notes: Vec<Diagnostic> = written.notes.into_iter().map(Diagnostic::warning).collect();
        output::diagnostics(&notes);
        Ok(written.files)
    }

    /// Writes the graph, and first a file beside it for weights that it has no room for.
    fn write_onnx(&self, model: &TrainedModel) -> Result<WrittenFiles, ExportProblem> {
        let onnx = model.onnx()?;
        let (bytes, mut written) = if onnx.is_large() {
            self.write_beside(onnx)?
        } else {
            (onnx.whole()?, Vec::new())
        };
        files::write_atomically(&self.output, &bytes).map_err(ExportProblem::File)?;
        written.push((self.output.clone(), bytes.len() as u64));
        Ok(written)
    }

    /// Writes the file of weights, at once; returns the bytes of the graph.
    fn write_beside(&self, onnx: OnnxModel) -> Result<(Vec<u8>, WrittenFiles), ExportProblem> {
        let name = self.output.file_name().unwrap_or_default();
        let name = format!("{}.data", name.to_string_lossy());
        let path = self.output.with_file_name(&name);
        let (mut graph, mut size) = (Vec::new(), 0);
        let written = files::write_atomically_by(&path, |file| {
            let mut file = BufWriter::new(file);
            let bytes = onnx.beside(&name, |weights| {
                size += weights.len() as u64;
                file.write_all(weights).map_err(Unwritten::File)
            });
            graph = bytes.map_err(io::Error::from)?;
            file.flush()
        });
        written.map_err(ExportProblem::File)?;
        Ok((graph, vec![(path, size)]))
    }
}

/// Why the file of weights is not complete.
enum Unwritten {
    Model(OnnxError),
    File(io::Error),
}

impl From<OnnxError> for Unwritten {
    fn from(error: OnnxError) -> Self {
        Unwritten::Model(error)
    }
}

impl From<Unwritten> for io::Error {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            Unwritten::Model(error) => io::Error::other(error),
            Unwritten::File(error) => error,
        }
    }
}
