//! What `sconce run` prints at a run's end: how it ended, how good the kept weights are, and where the time went.

use sconce_plugin_api::Phase;

use crate::checkpoint::{TRAINED, WeightsId};
use crate::cli::process::signals;
use crate::cli::run::copies;
use crate::cli::run::out_of_memory::OutOfMemory;
use crate::cli::show::{number, output};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::run::{
    Divergence, FinalMetrics, HookWork, KeptWeights, Profile, RunOutcome, RunReport, RunTimes,
    StopSignal,
};

/// Prints how the run ended, and whether its directory is gone; returns the exit code.
pub(super) fn conclude(
    report: &RunReport,
    out_of_memory: Option<&OutOfMemory>,
    vanished: Option<String>,
) -> u8 {
    let mut problems = Vec::new();
    let code = match &report.outcome {
        RunOutcome::Completed => {
            output::line(&format!("completed: {}", amount(report)));
            exit::DONE
        }
        RunOutcome::Stopped { reason, hook } if hook.is_empty() => {
            output::line(&format!("stopped ({reason}): {}", amount(report)));
            exit::DONE
        }
        RunOutcome::Stopped { reason, hook } => {
            output::line(&format!(
                "stopped by `{hook}` ({reason}): {}",
                amount(report)
            ));
            exit::DONE
        }
        RunOutcome::Interrupted(StopSignal::Until) => {
            output::line(&format!("paused: {}", amount(report)));
            exit::DONE
        }
        RunOutcome::Interrupted(signal) => {
            output::line(&format!("ended by {}: {}", signal.name(), amount(report)));
            signals::code_of(*signal)
        }
        RunOutcome::Failed(error) => {
            let problem = Diagnostic::new(error.to_string());
            let problem = match out_of_memory {
                Some(facts) => facts.explain(problem),
                None => problem,
            };
            problems.push(match vanished {
                Some(reason) => problem.note(reason),
                None => problem,
            });
            error.code()
        }
    };
    for line in metric_lines(&report.metrics) {
        output::line(&format!("  {line}"));
    }
    output::line(&format!("  time: {}", whole_time(&report.times)));
    for (phase, profile) in &report.profiles {
        output::line(&format!("  time in {phase}: {}", shares(profile)));
        if *phase == Phase::Train
            && let Some(line) = copies::measured(profile, report.iterations)
        {
            output::line(&format!("  {line}"));
        }
    }
    let is_done = matches!(
        report.outcome,
        RunOutcome::Completed | RunOutcome::Stopped { .. }
    );
    if let Some(divergence) = report.divergence.as_ref().filter(|_| is_done) {
        output::diagnostics(&[diverged(divergence)]);
    }
    problems.extend(
        report
            .late_faults
            .iter()
            .map(|fault| Diagnostic::new(fault.to_string())),
    );
    output::diagnostics(&problems);
    if code == exit::DONE && !problems.is_empty() {
        return exit::HOOK;
    }
    code
}

/// A line for each phase; before them which weights are kept, if they are not simply the last ones, and after them the
/// last results with other weights.
fn metric_lines(all: &FinalMetrics) -> Vec<String> {
    let kept = all.kept.as_ref().and_then(kept_line);
    let own = all
        .metrics
        .iter()
        .map(|(phase, metrics)| format!("{phase}: {}", values(metrics)));
    let last = all.last.iter().map(|last| {
        let of = last
            .weights
            .as_ref()
            .map_or_else(String::new, |weights| format!(" of {}", named(weights)));
        format!("not kept: {}{of}: {}", last.phase, values(&last.metrics))
    });
    kept.into_iter().chain(own).chain(last).collect()
}

/// Which weights are kept; `None` if they are those that training ended with.
fn kept_line(kept: &KeptWeights) -> Option<String> {
    let weights = named(&kept.weights);
    match (&kept.checkpoint, &kept.weights.set) {
        (Some(tag), _) => Some(format!("kept: {weights}, from the checkpoint `{tag}`")),
        (None, Some(_)) => Some(format!("kept: {weights}")),
        (None, None) => None,
    }
}

/// Weights in words.
fn named(weights: &WeightsId) -> String {
    let set = weights.set.as_deref().unwrap_or(TRAINED);
    if set == TRAINED {
        return format!("epoch {}", weights.epoch);
    }
    format!("epoch {}, averages `{set}`", weights.epoch)
}

/// Metrics in words; the elements of tables are only counted.
fn values(metrics: &[(String, f64)]) -> String {
    let (tables, plain): (Vec<_>, Vec<_>) =
        metrics.iter().partition(|(name, _)| name.contains('/'));
    let plain: Vec<String> = plain
        .iter()
        .map(|(name, value)| format!("{name} {}", number::shown(*value, 4)))
        .collect();
    let rest = match tables.len() {
        0 => String::new(),
        count => format!(", and {count} numbers of tables in `run.json`"),
    };
    format!("{}{rest}", plain.join(", "))
}

/// Warning for a training that has diverged; the exit code is not affected.
fn diverged(divergence: &Divergence) -> Diagnostic {
    let began = divergence.first.map_or_else(String::new, |first| {
        format!("; it began at {}", number::shown(first, 4))
    });
    let last = number::shown(divergence.last, 4);
    Diagnostic::warning(format!(
        "the training has diverged: the last epoch's loss is {last}{began}"
    ))
    .hint(
        "a lower `learning_rate`, a warm-up (`lr-schedule`) or the hook `grad-clip` may help; with \
         `\"check_finite\": true` under `train`, or the hook `stop-on-nan`, such a run ends at the first number that is not finite",
    )
}

/// A part of a time in per cent.
fn percent(seconds: f64, total: f64) -> f64 {
    // The sum of nothing is -0.0; adding zero removes the sign.
    100.0 * seconds / total.max(f64::MIN_POSITIVE) + 0.0
}

/// Where all of the run's time went, in per cent, from the start of the process until now.
fn whole_time(times: &RunTimes) -> String {
    let total = times.elapsed_seconds();
    let part = |name: &str, seconds: f64| format!("{name} {:.1} %", percent(seconds, total));
    let sum = |of: fn(&HookWork) -> f64| times.hooks.iter().map(of).sum::<f64>();
    let mut parts = vec![part("start", times.before)];
    parts.extend(
        times
            .passes
            .iter()
            .map(|(phase, seconds)| part(phase.name(), *seconds)),
    );
    parts.push(part("hooks outside of passes", sum(|hook| hook.seconds)));
    parts.push(part("requests", sum(|hook| hook.serving)) + &requests(times));
    if times.paused > 0.0 {
        parts.push(part("paused", times.paused));
    }
    parts.push(part("end", times.end.hooks + times.end.weights));
    parts.push(part("other", times.other(total)));
    format!("{total:.2} s: {}", parts.join(", "))
}

/// The hook whose requests took the most time, in parentheses.
fn requests(times: &RunTimes) -> String {
    let most = times
        .hooks
        .iter()
        .max_by(|a, b| a.serving.total_cmp(&b.serving));
    most.filter(|hook| hook.requests > 0)
        .map_or_else(String::new, |hook| {
            let name = if hook.name.is_empty() {
                "the host"
            } else {
                &hook.name
            };
            format!(
                " (most: `{name}`, {:.2} s in {})",
                hook.serving, hook.requests
            )
        })
}

/// Where the time of passes went, in per cent.
fn shares(profile: &Profile) -> String {
    let hooks: f64 = profile.hooks.iter().map(|hook| hook.seconds).sum();
    let share = |seconds: f64| percent(seconds, profile.total);
    let waiting = match profile.waiting {
        seconds if seconds > 0.0 => format!(", waiting for the GPU {:.1} %", share(seconds)),
        _ => String::new(),
    };
    format!(
        "{:.2} s: data {:.1} %, forward {:.1} %, loss {:.1} %, backward {:.1} %, update {:.1} %, \
         hooks {:.1} %{waiting}, other {:.1} %",
        profile.total,
        share(profile.data),
        share(profile.forward),
        share(profile.loss),
        share(profile.backward),
        share(profile.update),
        share(hooks),
        share(profile.other)
    )
}

fn amount(report: &RunReport) -> String {
    format!(
        "{} epochs, {} iterations, {} updates in {:.1} s",
        report.epochs, report.iterations, report.updates, report.seconds
    )
}
