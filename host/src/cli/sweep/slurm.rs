//! Trials as jobs of Slurm: an array for each rung, and after it a job that decides which go on and submits the next.

use std::fmt;
use std::io;
use std::process::{Command, Stdio};
use std::str::FromStr;

use super::document::{BatchSystem, SystemName};
use super::plan::Sweep;
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::session::StartFailure;
use crate::shell_word::shell_word;

/// What a job had submitted: so many trials of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Submitted {
    rung: usize,
    trials: usize,
}

impl fmt::Display for Submitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.rung, self.trials)
    }
}

impl FromStr for Submitted {
    type Err = String;

    fn from_str(text: &str) -> Result<Submitted, String> {
        let numbers = text.split_once(':').and_then(|(rung, trials)| {
            Some(Submitted {
                rung: rung.parse().ok()?,
                trials: trials.parse().ok()?,
            })
        });
        numbers.ok_or_else(|| "a rung and a number of trials, as in `0:16`".to_owned())
    }
}

/// Submits the trials of the rung that is under way, and the job after them; nothing if the sweep is over.
pub(super) fn submit(
    sweep: &Sweep,
    batch: &BatchSystem,
    after: Option<Submitted>,
) -> Result<u8, StartFailure> {
    let SystemName::Slurm = batch.system;
    let progress = sweep.progress();
    super::results::write(sweep)
        .map_err(|error| failed(&format!("the results can't be written: {error}")))?;
    if progress.missing.is_empty() {
        return Ok(exit::DONE);
    }
    let now = Submitted {
        rung: progress.rung,
        trials: progress.missing.len(),
    };
    let numbers: Vec<usize> = progress.missing.iter().map(|trial| trial + 1).collect();
    if after == Some(now) {
        let problem = format!(
            "none of the trials {} got further; their logs are in `{}`",
            ranges(&numbers),
            sweep.output.join("logs").display()
        );
        return Err(failed(&problem));
    }
    let limit = batch
        .at_once
        .map_or_else(String::new, |most| format!("%{most}"));
    let array = format!("--array={}{limit}", ranges(&numbers));
    let own = own_command(sweep)
        .map_err(|error| failed(&format!("this program can't be named: {error}")))?;
    let trials = format!("exec {own} --trial \"$SLURM_ARRAY_TASK_ID\"");
    let job = sbatch(sweep, batch, &[array], &trials)?;
    let next = format!("exec {own} --after {now}");
    sbatch(
        sweep,
        batch,
        &[format!("--dependency=afterany:{job}")],
        &next,
    )?;
    output::line(&format!("submitted {} trials: job {job}", numbers.len()));
    Ok(exit::DONE)
}

/// This command, as a shell takes it.
fn own_command(sweep: &Sweep) -> io::Result<String> {
    let program = crate::subprocess::executable()?;
    let mut words = vec![program, "sweep".into(), std::path::absolute(&sweep.file)?];
    for directory in &sweep.plugins {
        words.extend(["--plugins".into(), std::path::absolute(directory)?]);
    }
    let words: Vec<String> = words
        .iter()
        .map(|word| shell_word(&word.to_string_lossy()).into_owned())
        .collect();
    Ok(words.join(" "))
}

/// Submits a job; returns its number.
fn sbatch(
    sweep: &Sweep,
    batch: &BatchSystem,
    options: &[String],
    script: &str,
) -> Result<String, StartFailure> {
    let logs = sweep.output.join("logs");
    let mut command = Command::new("sbatch");
    command
        .args(["--parsable", "--job-name=sconce-sweep"])
        .arg(format!("--output={}/slurm-%j.log", logs.display()))
        .args(&batch.options)
        .args(options)
        .args(["--wrap", script])
        .stdin(Stdio::null());
    let answer = command
        .output()
        .map_err(|error| failed(&format!("`sbatch` can't be run: {error}")))?;
    let printed = String::from_utf8_lossy(&answer.stdout);
    // With several clusters: the job's number, `;` and the cluster.
    let job = printed.trim().split(';').next().unwrap_or_default();
    let is_number = !job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit());
    if !answer.status.success() || !is_number {
        let told = String::from_utf8_lossy(&answer.stderr);
        return Err(failed(&format!(
            "`sbatch` has refused the job: {}",
            told.trim()
        )));
    }
    Ok(job.to_owned())
}

fn failed(problem: &str) -> StartFailure {
    StartFailure {
        code: exit::TRAINING,
        ..StartFailure::usage(vec![Diagnostic::new(problem)])
    }
}

/// Numbers as `sbatch` takes them: `1-3,7`.
fn ranges(numbers: &[usize]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|one, next| one + 1 == *next);
    let runs = runs.filter_map(|run| match (run.first()?, run.last()?) {
        (first, last) if first == last => Some(first.to_string()),
        (first, last) => Some(format!("{first}-{last}")),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_named_by_ranges() {
        assert_eq!(ranges(&[7, 1, 3, 2, 9, 10]), "1-3,7,9-10");
        assert_eq!(ranges(&[4]), "4");
    }

    #[test]
    fn what_was_submitted_is_read_back() {
        let submitted = Submitted {
            rung: 2,
            trials: 16,
        };
        assert_eq!(submitted.to_string().parse(), Ok(submitted));
        assert!("2".parse::<Submitted>().is_err());
    }
}
