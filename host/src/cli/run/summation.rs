//! Training on several ranks: where its gradients are summed, on the host or on the ranks' GPUs.

use std::time::Duration;

use crate::cli::ranks::together;
use crate::diagnostic::Diagnostic;
use crate::manifest::{DistributedConfig, GradientSums, Manifest, Wire};
use crate::run::Trainer;
use crate::session::{Prepared, StartFailure};
use crate::team::{Gpus, Summation, Team, connect_gpus};

/// What a trainer needs to train together with other ranks.
pub(super) struct JointTraining<'a> {
    team: &'a Team,
    config: DistributedConfig,
    summation: Summation,
    lines: Vec<String>,
}

impl JointTraining<'_> {
    /// What is logged at the start.
    pub(super) fn opening_lines(&self) -> Vec<String> {
        self.lines.clone()
    }

    /// A trainer that trains together with the other ranks.
    pub(in crate::cli) fn of(self, trainer: Trainer<'_>) -> Trainer<'_> {
        trainer.together(self.team, &self.config, self.summation)
    }
}

/// Chooses by the manifest where gradients are summed, together with all other ranks, which come to the same choice; `None` in a
/// run of one process.
///
/// # Errors
///
/// If the manifest asks for NCCL and a rank can't have it, or a rank has failed.
pub(super) fn choose<'a>(
    team: Option<&'a Team>,
    prepared: &Prepared,
) -> Result<Option<JointTraining<'a>>, StartFailure> {
    let Some(team) = team else {
        return Ok(None);
    };
    let manifest = &prepared.manifest;
    let config = manifest.distributed.clone();
    let mut lines = vec![together::opening_line(team, manifest)];
    let mut summation = Summation::new(config.wire == Wire::Bf16);
    match config.gradients {
        // On the CPU there is nothing to choose.
        GradientSums::Auto if !manifest.device.is_gpu() => {}
        GradientSums::Host => {}
        GradientSums::Auto | GradientSums::Nccl => match connect(team, prepared)? {
            Ok(gpus) => {
                let version = gpus.version();
                lines.push(format!(
                    "  gradients are summed on the GPUs, by NCCL {version}"
                ));
                summation = summation.on_gpus(gpus);
            }
            Err(reason) if config.gradients == GradientSums::Nccl => {
                return Err(refused(team, manifest, &reason));
            }
            Err(reason) => lines.push(format!(
                "  gradients are summed on the host, not on the GPUs: {reason}"
            )),
        },
    }
    Ok(Some(JointTraining {
        team,
        config,
        summation,
        lines,
    }))
}

/// The ranks' GPUs, or why they can't be connected.
fn connect(team: &Team, prepared: &Prepared) -> Result<Result<Gpus, String>, StartFailure> {
    let timeout = Duration::try_from_secs_f64(prepared.manifest.distributed.timeout);
    let device = prepared.task.parameters().device();
    let connected = connect_gpus(team, device, timeout.unwrap_or(Duration::MAX));
    connected.map_err(|error| together::failure(&error))
}

/// The failure of all ranks, which the first one reports.
fn refused(team: &Team, manifest: &Manifest, reason: &str) -> StartFailure {
    let problem = Diagnostic::new(format!("`nccl` can't sum gradients on the GPUs: {reason}"))
        .at(manifest.place("distributed.gradients"))
        .hint(
            "it takes `\"device\": \"cuda\"`, a GPU for each rank, and NVIDIA's NCCL on each machine (docs/gpu.md); \
             `\"gradients\": \"auto\"` sums them on the host where that is missing, with the same bits",
        );
    let mut failure = StartFailure::usage(vec![problem]);
    failure.is_of_all_ranks = true;
    if !team.is_first() {
        failure.diagnostics.clear();
    }
    failure
}
