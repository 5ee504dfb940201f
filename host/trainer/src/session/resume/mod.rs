//! The checkpoint to resume from, and the check that it belongs to the same run: `changes` are the differences between the two.

mod changes;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use sconce_base::nearest::nearest;
use sconce_base::regular_file::read_at_most;

pub use changes::{changes, data_changes, rank_changes};

use super::{HookPlan, Output, Prepared, StartFailure, device_changes, products_change};
use crate::checkpoint::{self, Checkpoint, FORMAT, LATEST, Section, Store};
use crate::data::{self, DataFile};
use crate::diagnostic::Diagnostic;
use crate::parameters::ParameterRole;
use crate::parameters::adapters::Adapters;
use crate::run::Resume;
use crate::task::{DataFacts, Task};

/// File in a run's directory that lists the files of its data with their hashes, as `b3sum --check` takes it.
pub const DATA_LISTING: &str = "data.b3sums";

/// Size in bytes above which such a list is not read: some millions of files.
const LARGEST_LISTING: u64 = 1 << 30;

/// Checkpoint to resume from, with everything that has changed since.
pub struct ResumePoint {
    path: PathBuf,
    /// Its contents.
    pub checkpoint: Checkpoint,
    changes: Vec<String>,
    /// What to report about the choice.
    pub warnings: Vec<Diagnostic>,
}

impl ResumePoint {
    /// Reads the requested checkpoint and compares its run with this one. Data and parameters are
    /// compared later, once the task exists.
    ///
    /// # Errors
    ///
    /// If there is no such checkpoint, or it is damaged.
    pub fn find(
        what: &str,
        store: &Store,
        manifest: &serde_json::Value,
        hooks: &[HookPlan],
    ) -> Result<ResumePoint, StartFailure> {
        let mut warnings = Vec::new();
        let (path, checkpoint) = match meant(what, store)? {
            Meant::This(path) => {
                let checkpoint =
                    checkpoint::read(&path).map_err(|error| damaged(&error, &path, store))?;
                (path, checkpoint)
            }
            Meant::Latest(store) => newest(&store, &mut warnings)?,
        };
        let changes = changes(&checkpoint, manifest, hooks);
        Ok(ResumePoint {
            path,
            checkpoint,
            changes,
            warnings,
        })
    }

    /// The checkpoint that the first rank has found, compared with this run.
    pub fn of_first_rank(
        path: PathBuf,
        checkpoint: Checkpoint,
        manifest: &serde_json::Value,
        hooks: &[HookPlan],
    ) -> ResumePoint {
        let changes = changes(&checkpoint, manifest, hooks);
        ResumePoint {
            path,
            checkpoint,
            changes,
            warnings: Vec::new(),
        }
    }

    /// Directory of the checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds what has changed of the run's ranks.
    pub fn with_changes(mut self, changes: Vec<String>) -> ResumePoint {
        self.changes.extend(changes);
        self
    }

    /// Describes how the files of the data have changed.
    fn file_changes(&self, is: &[DataFile]) -> Vec<String> {
        let was = &self.checkpoint.header.facts.files;
        if was.is_empty() && self.checkpoint.header.format < FORMAT {
            return Vec::new();
        }
        // Of an earlier segment of the run, in the directory that has its checkpoints.
        let store = Store::around(&self.path);
        let listing =
            (store.as_ref().and_then(|store| store.directory().parent())).and_then(|run| {
                let text = read_at_most(&run.join(DATA_LISTING), LARGEST_LISTING).ok()?;
                String::from_utf8(text).ok()
            });
        let was = data::with_listed_members(was, &listing.unwrap_or_default());
        data::file_changes(&was, is)
    }

    /// Returns the state for the trainer to resume from, and what to report about it. Only the first rank has the files of other
    /// checkpoints, and reports.
    ///
    /// # Errors
    ///
    /// If something has changed without the user allowing it, or if the model's parameters differ.
    pub fn resume(
        mut self,
        prepared: &Prepared,
        allowed: bool,
        is_first: bool,
    ) -> Result<(Resume, Vec<Diagnostic>), StartFailure> {
        let mut warnings = Vec::new();
        let task = prepared.task.as_ref();
        let is = DataFacts::of(task);
        self.changes
            .extend(data_changes(&self.checkpoint.header.facts.data, &is));
        self.changes.extend(self.file_changes(&prepared.files));
        let device = task.parameters().device();
        let facts = &self.checkpoint.header.facts;
        let device_change = device_changes(facts, device);
        // Where device or precision differ, that is already reported.
        let precision = prepared.manifest.precision;
        let is_same = device_change.is_none()
            && self.checkpoint.manifest.get("precision") == Some(&precision.name().into());
        let products = is_same.then(|| products_change(facts, precision.products(device)));
        self.changes.extend(device_change);
        self.changes.extend(products.flatten());
        let parameters = parameter_changes(&self.checkpoint, task);
        let path = self.path.display();
        if !parameters.is_empty() {
            let problem = format!(
                "the run can't resume from `{path}`, the model differs from the checkpoint's:{}",
                bulleted(parameters.iter().chain(&self.changes))
            );
            let hint = "to begin a new run with the weights that fit, name the checkpoint in the \
                        manifest's `weights` with `\"strict\": false`";
            return Err(StartFailure::usage(vec![
                Diagnostic::new(problem).hint(hint),
            ]));
        }
        self.check_base(task)?;
        // The first rank has the files.
        let missing = if is_first { self.missing() } else { Vec::new() };
        if !missing.is_empty() && !allowed {
            return Err(self.refused_for(&missing));
        }
        self.changes.extend(missing);
        if !self.changes.is_empty() {
            let changes = bulleted(self.changes.iter());
            if !allowed {
                let problem = format!("the run can't resume from `{path}` bit for bit:{changes}");
                let hint = "`--allow-changes` resumes all the same";
                return Err(StartFailure::usage(vec![
                    Diagnostic::new(problem).hint(hint),
                ]));
            }
            let warning = format!("the run resumes from `{path}`, not bit for bit:{changes}");
            if is_first {
                warnings.push(Diagnostic::warning(warning));
            }
        }
        if is_first && !self.checkpoint.header.exact {
            let warning = format!(
                "`{path}` was saved when an error interrupted an iteration, an evaluation or a call of hooks: parameters \
                 and optimizer are as before it, but hooks and this epoch's metrics may have seen a part of it, and not \
                 see the rest"
            );
            let hint = "from any other checkpoint, or from the beginning with `--overwrite`, the results are those of a \
                        run without the error";
            warnings.push(Diagnostic::warning(warning).hint(hint));
        }
        let resume = Resume {
            is_changed: !self.changes.is_empty(),
            checkpoint: self.checkpoint,
            path: self.path,
        };
        Ok((resume, warnings))
    }
}

impl ResumePoint {
    /// Checks that what is held is what the checkpoint's adapters were trained beside.
    fn check_base(&self, task: &dyn Task) -> Result<(), StartFailure> {
        let was = self.checkpoint.header.facts.base.as_deref();
        let is = task.parameters().adapters().and_then(Adapters::base);
        if was == is {
            return Ok(());
        }
        let path = self.path.display();
        let problem = match (was, is) {
            (Some(_), Some(_)) => format!(
                "the run can't resume from `{path}`: its adapters were trained beside other weights than those that `weights` \
                 names now"
            ),
            (Some(_), None) => format!(
                "the run can't resume from `{path}`: it has adapters, and the manifest none"
            ),
            (None, _) => format!(
                "the run can't resume from `{path}`: it has no adapters, as the manifest does"
            ),
        };
        let hint = "the file of a run's base must stay as it is";
        Err(StartFailure::usage(vec![
            Diagnostic::new(problem).hint(hint),
        ]))
    }

    /// The checkpoints that hooks' states refer to and that are gone, or have been replaced without a trace.
    fn missing(&self) -> Vec<String> {
        let Some(store) = Store::around(&self.path) else {
            return Vec::new();
        };
        let references = self.checkpoint.references();
        let missing = references.filter(|(_, reference)| store.find(reference).is_none());
        missing
            .map(|(hook, reference)| {
                let tag = reference.tag();
                let found = match checkpoint::epoch_of(&store.path_of(tag)) {
                    Some(epoch) => format!("found is one of epoch {epoch}"),
                    None => "there is none".to_owned(),
                };
                format!(
                    "the hook `{hook}` refers to the checkpoint `{tag}` of epoch {}, update {}, SHA-256 {:.8}…; {found}",
                    reference.epoch(),
                    reference.update(),
                    reference.sha256()
                )
            })
            .collect()
    }

    fn refused_for(&self, missing: &[String]) -> StartFailure {
        let problem = format!(
            "the run can't resume from `{}`, its hooks' states refer to checkpoints that don't exist:{}",
            self.path.display(),
            bulleted(missing.iter())
        );
        let other = Store::around(&self.path).and_then(|store| store.newest_consistent());
        let other = other.map_or_else(String::new, |tag| {
            format!("resume from `{tag}`, the newest one of which everything is there; or ")
        });
        let hint = format!(
            "{other}use `--allow-changes`, by which these hooks forget what is gone; or start over with `--overwrite`"
        );
        StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
    }

    /// Whether the checkpoint `what` is outside of an output directory, so that a run resumed from it is a new one there.
    pub fn is_elsewhere(what: &str, store: &Store) -> bool {
        match meant(what, store) {
            Ok(Meant::This(path)) => path.parent() != Some(store.directory()),
            Ok(Meant::Latest(other)) => other.directory() != store.directory(),
            Err(_) => false,
        }
    }

    /// Brings the checkpoint to the directory of the new run, with everything that its hooks' states refer to.
    ///
    /// # Errors
    ///
    /// If that run has checkpoints of its own, or something can't be copied.
    pub fn bring(resume: &mut Resume, output: &Output) -> Result<(), StartFailure> {
        let store = &output.store;
        let is_inside = |path: &Path| path.parent() == Some(store.directory());
        if is_inside(&resume.path) {
            return Ok(());
        }
        output.refuse_others_checkpoints()?;
        let tag = resume.checkpoint.header.tag.clone();
        store.bring(&resume.path, &tag).map_err(|error| {
            let problem = format!(
                "the checkpoint `{}` can't be brought to `{}`: {error}",
                resume.path.display(),
                output.path.display()
            );
            StartFailure::usage(vec![Diagnostic::new(problem)])
        })?;
        resume.path = store.path_of(&tag);
        Ok(())
    }
}

/// Which checkpoint was requested.
enum Meant {
    /// Exactly the one in this directory.
    This(PathBuf),
    /// The last one saved by a run.
    Latest(Store),
}

/// Reads the last saved checkpoint: the one that `latest` points to or, if that is missing or damaged, the newest
/// complete one, of those that are exact if there is one, with a warning.
fn newest(
    store: &Store,
    warnings: &mut Vec<Diagnostic>,
) -> Result<(PathBuf, Checkpoint), StartFailure> {
    let latest = store.latest();
    let reason = match &latest {
        Some(tag) => {
            let path = store.path_of(tag);
            match checkpoint::read(&path) {
                Ok(checkpoint) => return Ok((path, checkpoint)),
                Err(error) => error,
            }
        }
        None => checkpoint::CheckpointError::Missing {
            path: store.directory().join(LATEST),
        },
    };
    let others = store.newest_first();
    let others = others.iter().filter(|tag| Some(*tag) != latest.as_ref());
    let readable = |tag: &String| {
        let path = store.path_of(tag);
        let checkpoint = checkpoint::read(&path).ok()?;
        Some((tag.clone(), path, checkpoint))
    };
    let is_exact = |(.., checkpoint): &(String, PathBuf, Checkpoint)| checkpoint.header.exact;
    let found = (others.clone().filter_map(readable).find(is_exact))
        .or_else(|| others.clone().find_map(readable));
    if let Some((tag, path, checkpoint)) = found {
        let warning = format!("{reason}; the run resumes from `{tag}`, the newest complete one");
        let hint = "another one can be named: `--resume TAG`";
        warnings.push(Diagnostic::warning(warning).hint(hint));
        return Ok((path, checkpoint));
    }
    match latest {
        Some(tag) => Err(damaged(&reason, &store.path_of(&tag), store)),
        None => Err(nothing(store)),
    }
}

fn damaged(error: &checkpoint::CheckpointError, path: &Path, store: &Store) -> StartFailure {
    let others = store.tags();
    let others: Vec<&String> = (others.iter())
        .filter(|tag| store.path_of(tag) != path)
        .collect();
    let problem = Diagnostic::new(error.to_string());
    StartFailure::usage(vec![match others.as_slice() {
        [] => problem,
        others => problem.hint(format!("other checkpoints: {}", quoted(others))),
    }])
}

fn nothing(store: &Store) -> StartFailure {
    let problem = format!(
        "there is no checkpoint in `{}`",
        store.directory().display()
    );
    let hint = "without `--resume` a new run begins";
    StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
}

/// Resolves a tag, a path, or nothing to a checkpoint.
fn meant(what: &str, store: &Store) -> Result<Meant, StartFailure> {
    if what == LATEST {
        return Ok(Meant::Latest(store.clone()));
    }
    let path = Path::new(what);
    let is_tag = path.components().count() == 1;
    if is_tag && store.path_of(what).is_dir() {
        return Ok(Meant::This(store.path_of(what)));
    }
    if path.is_dir() {
        let path = fs_err::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        // A run's output directory means its latest checkpoint.
        let other = Store::of(&path);
        return Ok(if other.directory().is_dir() {
            Meant::Latest(other)
        } else {
            Meant::This(path)
        });
    }
    let tags = store.tags();
    if tags.is_empty() {
        return Err(nothing(store));
    }
    let problem = format!(
        "there is no checkpoint `{what}` in `{}`, and no such directory",
        store.directory().display()
    );
    let near = nearest(what, tags.iter().map(String::as_str));
    let all: Vec<&String> = tags.iter().collect();
    let hint = match near {
        Some(near) => format!("did you mean `{near}`? There are {}", quoted(&all)),
        None => format!("there are {}", quoted(&all)),
    };
    Err(StartFailure::usage(vec![
        Diagnostic::new(problem).hint(hint),
    ]))
}

/// Describes how the model's parameters differ from those of a checkpoint.
fn parameter_changes(checkpoint: &Checkpoint, task: &dyn Task) -> Vec<String> {
    const MOST: usize = 8;
    let mut found = Vec::new();
    let parameters = task.parameters();
    let saved: HashMap<&str, &Tensor> = checkpoint.under(Section::Parameters).collect();
    let of_run = parameters
        .iter()
        .filter(|parameter| parameter.role() != ParameterRole::Base);
    for parameter in of_run {
        let name = parameter.name();
        match saved.get(name) {
            None => found.push(format!("the checkpoint has no parameter `{name}`")),
            Some(tensor) if tensor.dims() != parameter.tensor().dims() => found.push(format!(
                "`{name}` had the shape {:?}, now {:?}",
                tensor.dims(),
                parameter.tensor().dims()
            )),
            Some(_) => {}
        }
    }
    for (name, _) in checkpoint.under(Section::Parameters) {
        if parameters.get(name).is_err() {
            found.push(format!("the model has no parameter `{name}` any more"));
        }
    }
    if found.len() > MOST {
        let more = found.len() - MOST;
        found.truncate(MOST);
        found.push(format!("and {more} more"));
    }
    found
}

/// Changes as a list below a sentence.
pub fn bulleted<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    lines.fold(String::new(), |text, line| format!("{text}\n  - {line}"))
}

fn quoted(tags: &[&String]) -> String {
    let tags: Vec<String> = tags.iter().map(|tag| format!("`{tag}`")).collect();
    tags.join(", ")
}
