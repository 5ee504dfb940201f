//! A run's process among others: finds them, agrees with them on what is trained, and keeps its messages apart.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use sconce_data::ContentHash;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{self, Checkpoint, RawFiles};
use crate::cli::ManifestArgs;
use crate::cli::show::output;
use crate::diagnostic::{Diagnostic, shortened};
use crate::digest::fingerprint;
use crate::exit;
use crate::kernels;
use crate::kernels::threads;
use crate::launcher;
use crate::log::{Level, Log, MessageFormat, StderrLog};
use crate::manifest::json_path;
use crate::manifest::{
    self, BatchNormStatistics, BatchesPer, DistributedConfig, Engine, Manifest, Overlay, Wire,
};
use crate::session::{Prepared, StartFailure, TaskBuilder, reload};
use crate::subprocess;
use crate::task::DataFacts;
use crate::team::{self, Launch, Purpose, Said, Summation, Team, TeamError};
use crate::version::HOST_VERSION;

/// Directory for what ranks above the first write, in the run's directory.
const RANKS: &str = "ranks";

/// File for a rank's messages, in its directory.
const LOG: &str = "log.txt";

/// The other processes of this run, if its launcher has started any.
///
/// # Errors
///
/// If they can't be reached, or the manifest can't be read.
pub(in crate::cli) fn join(
    arguments: &ManifestArgs,
    overlay: &Overlay,
    tasks: &dyn TaskBuilder,
) -> Result<Option<Team>, StartFailure> {
    let Some(launch) = Launch::of_this_process().filter(|launch| launch.size > 1) else {
        return Ok(None);
    };
    if launch.rank > 0 {
        output::speak_as(&format!("rank {}", launch.rank));
    }
    let manifest = manifest::load(&arguments.file, overlay, tasks.source());
    let manifest = match manifest.map_err(StartFailure::usage) {
        Ok(manifest) => manifest,
        Err(failure) => return Err(fail_without_manifest(arguments, failure)),
    };
    if manifest.distributed.engine == Engine::None {
        output::speak_as("");
        return Ok(None);
    }
    expect_any_number(&manifest.distributed, launch.size)?;
    threads::use_at_most(own_processors(&launch));
    crate::cli::prepare::set_threads(manifest.threads);
    let mut directories: Vec<PathBuf> = arguments.plugins.clone();
    directories.extend(manifest.plugins.iter().cloned());
    let Some(transport) = team::open(&manifest.distributed, &directories)? else {
        output::speak_as("");
        return Ok(None);
    };
    let team = Team::new(transport);
    if !team.is_first() {
        output::speak_as(&team.name_of(team.rank()));
    }
    let said = Said {
        number: kernels::best() as u64,
        ..Said::default()
    };
    let heard = team
        .hear(Purpose::Start, said)
        .map_err(|error| failure(&error))?;
    if let Some(lowest) = heard.numbers.iter().min() {
        kernels::limit_level(*lowest);
    }
    Ok(Some(team))
}

/// Makes sure that a run which may go on with fewer ranks has the same results on them.
fn expect_any_number(config: &DistributedConfig, size: usize) -> Result<(), StartFailure> {
    let least = std::env::var(launcher::LEAST).ok();
    let Some(least) = least.filter(|least| least.parse().is_ok_and(|least: usize| least < size))
    else {
        return Ok(());
    };
    let obstacle = [
        (
            config.batches != BatchesPer::Update,
            "`\"batches\": \"update\"`",
        ),
        (config.wire != Wire::Own, "`\"wire\": \"own\"`"),
        (
            config.batch_norm != BatchNormStatistics::Batch,
            "`\"batch_norm\": \"batch\"`",
        ),
    ];
    let Some((_, needed)) = obstacle.into_iter().find(|(differs, _)| *differs) else {
        return Ok(());
    };
    let problem = format!(
        "with `--min-ranks {least}` the run may go on with fewer than {size} processes, and its results depend on their \
         number: that needs {needed} in `distributed`"
    );
    Err(StartFailure::usage(vec![Diagnostic::new(problem)]))
}

/// The failure of a manifest that can't be read: if the other ranks can be reached without it, the first one reports it
/// for all.
fn fail_without_manifest(arguments: &ManifestArgs, failure: StartFailure) -> StartFailure {
    match team::open(&DistributedConfig::default(), &arguments.plugins) {
        Ok(Some(transport)) => fail(&Team::new(transport), failure),
        _ => failure,
    }
}

/// Number of processors for this process, of those that it may use together with its neighbours on the same machine.
fn own_processors(launch: &Launch) -> usize {
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let all = processors().unwrap_or(usable).max(usable);
    let neighbours = launch.local_size.unwrap_or(1).max(1);
    // Launchers bind each process to some of the processors, or none to any.
    let sharing = (neighbours * usable).div_ceil(all).max(1);
    (usable / sharing).max(1)
}

/// Number of processors of this machine.
fn processors() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let mut count = 0;
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        count += last.checked_sub(first)?.checked_add(1)?;
    }
    Some(count)
}

/// The failure of a rank that can't start because of the others.
pub(in crate::cli) fn failure(error: &TeamError) -> StartFailure {
    let mut failure = StartFailure::usage(vec![Diagnostic::new(error.to_string())]);
    failure.code = error.code().unwrap_or(exit::USAGE);
    failure.is_of_all_ranks = true;
    failure
}

/// Tells the other ranks that this one can't start. What the first rank says too is not repeated.
pub(in crate::cli) fn fail(team: &Team, mut failure: StartFailure) -> StartFailure {
    if failure.is_of_all_ranks {
        return failure;
    }
    let messages = failure
        .diagnostics
        .iter()
        .map(|diagnostic| diagnostic.message.as_str());
    let message: Vec<&str> = messages.collect();
    let is_known = team.fail(failure.code, &message.join("; "));
    if is_known && !team.is_first() {
        failure.diagnostics.clear();
    }
    failure
}

/// What must be the same on all ranks, part by part.
#[derive(Debug, Serialize, Deserialize)]
struct Facts {
    /// What the part is, as a sentence begins, and its value.
    parts: Vec<(String, String)>,
    /// Number of threads that results depend on.
    threads: usize,
}

impl Facts {
    fn of(team: &Team, prepared: &Prepared, manifest: &serde_json::Value) -> Facts {
        let mut parts = vec![
            ("the program is".to_owned(), HOST_VERSION.to_owned()),
            ("the target is".to_owned(), target()),
            ("the program has the hash".to_owned(), program()),
            (
                "the transport's plugin has SHA-256".to_owned(),
                team.transport_hash(),
            ),
        ];
        parts.extend(of_manifest(manifest));
        for plan in prepared.hooks() {
            parts.push((
                format!("plugin of `{}` has SHA-256", plan.spec.name),
                plan.spec.sha256.clone(),
            ));
        }
        for data in DataFacts::of(prepared.task.as_ref()) {
            let DataFacts {
                phase,
                samples,
                sample_shape,
            } = data;
            parts.push((
                format!("{phase} data has"),
                format!("{samples} samples of {sample_shape:?}"),
            ));
        }
        for file in &prepared.files {
            parts.push((
                format!("the data file `{}` has", file.name),
                format!("{} bytes with hash {}", file.bytes, file.hash),
            ));
        }
        for parameter in prepared.task.parameters().iter() {
            let bytes = bytes(parameter.tensor());
            let print = format!(
                "{:?} with SHA-256 {}",
                parameter.tensor().dims(),
                fingerprint(&bytes)
            );
            parts.push((format!("`{}` is", parameter.name()), print));
        }
        Facts {
            parts,
            threads: threads::threads().asked,
        }
    }

    /// How another rank's facts differ from these.
    fn difference(&self, other: &Facts) -> Option<String> {
        let (own, others) = (self.by_name(), other.by_name());
        for (name, value) in &other.parts {
            match own.get(name.as_str()) {
                Some(first) if first == value => {}
                Some(first) => return Some(format!("{name} {value}, on the first {first}")),
                None => {
                    return Some(format!("{name} {value}; the first has nothing of the kind"));
                }
            }
        }
        let mut own = self.parts.iter();
        let (name, value) = own.find(|(name, _)| !others.contains_key(name.as_str()))?;
        Some(format!("it lacks what the first has: {name} {value}"))
    }

    fn by_name(&self) -> HashMap<&str, &str> {
        let parts = self.parts.iter();
        parts
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }
}

/// The values of a manifest, by their paths. Directories may differ between machines.
fn of_manifest(manifest: &serde_json::Value) -> Vec<(String, String)> {
    let mut manifest = manifest.clone();
    if let Some(manifest) = manifest.as_object_mut() {
        manifest.remove("output");
        manifest.remove("plugins");
    }
    let leaves = json_path::leaves(&manifest).into_iter();
    leaves
        .map(|(path, value)| {
            let whole = value.to_string();
            let mut shown = shortened(&whole);
            // What is compared is the whole value, of which a message shows the beginning.
            if shown != whole {
                let _ = write!(shown, " (SHA-256 {})", fingerprint(whole.as_bytes()));
            }
            (format!("`{path}` of the manifest is"), shown)
        })
        .collect()
}

/// Hash of the file with this program's code; of one that can't be read, why.
fn program() -> String {
    // Another file may be at this program's path by now.
    let running = PathBuf::from("/proc/self/exe");
    let file = match subprocess::code() {
        Ok(code) if code != subprocess::executable().unwrap_or_default() => Ok(code),
        _ if cfg!(target_os = "linux") => Ok(running),
        code => code,
    };
    let hashed = file.and_then(std::fs::File::open);
    let hashed = hashed.and_then(ContentHash::of_reader);
    match hashed {
        Ok((hash, _)) => hash.to_string(),
        Err(error) => format!("(it can't be read: {error})"),
    }
}

fn bytes(tensor: &Tensor) -> Vec<u8> {
    safetensors::View::data(&tensor).into_owned()
}

fn target() -> String {
    format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS)
}

/// Checks that all ranks are about to train the same.
///
/// # Errors
///
/// If one is not, or has failed.
pub(in crate::cli) fn compare(
    team: &Team,
    prepared: &Prepared,
    manifest: &serde_json::Value,
) -> Result<Vec<Diagnostic>, StartFailure> {
    if let Some((name, dtype)) = Summation::unfit(prepared.task.parameters()) {
        return Err(StartFailure::usage(vec![Diagnostic::new(format!(
            "`{name}` is of type {dtype:?}: gradients of several ranks can only be summed in f32 and f64"
        ))]));
    }
    reload::refuse_on_ranks(prepared)?;
    let own = Facts::of(team, prepared, manifest);
    let bytes = postcard::to_allocvec(&own).unwrap_or_default();
    let said = Said {
        bytes: &bytes,
        ..Said::default()
    };
    let heard = team
        .hear(Purpose::Start, said)
        .map_err(|error| failure(&error))?;
    let read = |rank: usize| postcard::from_bytes::<Facts>(heard.of(rank)).ok();
    let first = read(0);
    let mut asked = Vec::new();
    for rank in 0..team.size() {
        let found = first.as_ref().zip(read(rank)).map(|(first, other)| {
            asked.push(other.threads);
            first.difference(&other)
        });
        if let Some(difference) = found.unwrap_or_else(|| Some("it says nothing".to_owned())) {
            let name = team.name_of(rank);
            let problem = Diagnostic::new(format!("{name} differs from rank 0: {difference}"))
                .hint("all ranks need the same program, manifest, plugins and data");
            let mut failure = StartFailure::usage(vec![problem]);
            failure.is_of_all_ranks = true;
            if !team.is_first() {
                failure.diagnostics.clear();
            }
            return Err(failure);
        }
    }
    let (least, most) = (asked.iter().min(), asked.iter().max());
    if least == most {
        return Ok(Vec::new());
    }
    Ok(vec![
        Diagnostic::warning(format!(
            "ranks compute with {} to {} threads: on other machines the results will be others",
            least.copied().unwrap_or_default(),
            most.copied().unwrap_or_default()
        ))
        .hint("`threads` in the manifest makes them the same everywhere"),
    ])
}

/// What the first rank has found to resume from, brought to all ranks.
///
/// # Errors
///
/// If a rank has failed, or the checkpoint can't be read.
pub(in crate::cli) fn share_checkpoint(
    team: &Team,
    found: Option<&Path>,
) -> Result<Option<(PathBuf, Checkpoint)>, StartFailure> {
    let read = || -> Result<Option<(PathBuf, RawFiles)>, String> {
        let Some(path) = found else {
            return Ok(None);
        };
        let files = checkpoint::read_raw(path).map_err(|error| error.to_string())?;
        Ok(Some((path.to_owned(), files)))
    };
    let bytes = team.from_first(|| postcard::to_allocvec(&read()).unwrap_or_default());
    let bytes = bytes.map_err(|error| failure(&error))?;
    let unread = |error: String| {
        let mut failure = StartFailure::usage(vec![Diagnostic::new(error)]);
        failure.is_of_all_ranks = true;
        failure
    };
    let files: Result<Option<(PathBuf, RawFiles)>, String> =
        postcard::from_bytes(&bytes).map_err(|error| unread(error.to_string()))?;
    let Some((path, files)) = files.map_err(unread)? else {
        return Ok(None);
    };
    let checkpoint = files.parse().map_err(|error| unread(error.to_string()))?;
    Ok(Some((path, checkpoint)))
}

/// What is logged at the start of a run on several ranks.
pub(in crate::cli) fn opening_line(team: &Team, manifest: &Manifest) -> String {
    let ranks = team.size();
    let machines = match team.machines() {
        1 => "on this machine".to_owned(),
        count => format!("on {count} machines"),
    };
    let DistributedConfig { batches, .. } = manifest.distributed;
    let train = &manifest.train;
    let update = match (batches, train.accumulate) {
        (BatchesPer::Rank, 1) => format!("{ranks} × {} samples", train.batch_size),
        (BatchesPer::Rank, count) => format!("{ranks} × {count} × {} samples", train.batch_size),
        (BatchesPer::Update, count) => {
            format!(
                "{count} × {} samples, whatever the number of ranks",
                train.batch_size
            )
        }
    };
    let mut line = format!(
        "  {ranks} ranks {machines} by {}: an update is {update}; learning rates stay as they are",
        team.transport_name()
    );
    if !team.is_first() {
        // Launchers may name a process that died by its number alone.
        let process = std::process::id();
        let _ = write!(line, "\n  {}, process {process}", team.name_of(team.rank()));
    }
    line
}

/// The directory of the run, as the first rank has opened it, and this rank's own, which is created if it is missing.
///
/// # Errors
///
/// If a rank has failed, or a directory can't be created.
pub(in crate::cli) fn share_directories(
    team: &Team,
    opened: Option<&Path>,
) -> Result<(PathBuf, PathBuf), StartFailure> {
    let path = opened.and_then(Path::to_str).unwrap_or_default();
    let bytes = team.from_first(|| path.as_bytes().to_vec());
    let bytes = bytes.map_err(|error| failure(&error))?;
    let run = PathBuf::from(String::from_utf8_lossy(&bytes).into_owned());
    if team.is_first() {
        return Ok((run.clone(), run));
    }
    let own = directory_of(&run, team.rank());
    fs_err::create_dir_all(&own).map_err(|error| {
        let problem = format!("the directory of this rank can't be made: {error}");
        StartFailure::usage(vec![Diagnostic::new(problem)])
    })?;
    Ok((run, own))
}

/// The directory of a rank's own files, in the run's.
pub(super) fn directory_of(run: &Path, rank: usize) -> PathBuf {
    match rank {
        0 => run.to_owned(),
        rank => run.join(RANKS).join(rank.to_string()),
    }
}

/// Log of a rank above the first: its messages go to a file, and warnings to standard error too.
pub(in crate::cli) struct RankLog {
    file: Option<std::fs::File>,
    screen: StderrLog,
}

impl RankLog {
    pub(in crate::cli) fn in_directory(directory: &Path, lines: StderrLog) -> RankLog {
        RankLog {
            file: std::fs::File::create(directory.join(LOG)).ok(),
            screen: StderrLog {
                level: Level::Warn,
                ..lines
            },
        }
    }
}

impl Log for RankLog {
    fn log(&self, level: Level, source: &str, message: &str) {
        if let Some(mut file) = self.file.as_ref() {
            let line = MessageFormat::Text.line(level, source, message);
            // A full disk is no reason to end a run.
            drop(std::io::Write::write_all(&mut file, line.as_bytes()));
        }
        self.screen.log(level, source, message);
    }
}
