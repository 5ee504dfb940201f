//! An update on several ranks: what each has measured, and the sum of their gradients.

use sconce_lifecycle::Position;
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use super::state::Ranks;
use crate::bridge::BridgeState;
use crate::gradients::{Gradients, TreeNode};
use crate::parameters::Parameters;
use crate::run::RunError;
use crate::run::sums::batch_sums::BatchSums;
use crate::task::Task;
use crate::team::{Heard, NodeNote, Purpose, Said, SumError, TeamError};

/// What a rank knows of an update.
#[derive(Debug, Default, Serialize, Deserialize)]
struct UpdateNote {
    /// What it has measured, in the order of batches.
    measured: Vec<BatchSums>,
    /// The nodes of its gradients, in the order of batches.
    nodes: Vec<NodeNote>,
}

/// What all ranks know of an update together.
pub(in crate::run) struct RankedUpdate {
    /// The sum of their gradients; `None` if no batch has any.
    pub(in crate::run) gradients: Option<Gradients>,
    /// What they have measured.
    pub(in crate::run) measured: Vec<BatchSums>,
    /// What the batch norms of their batches have recorded, in the order of batches.
    pub(in crate::run) statistics: Vec<Vec<u8>>,
}

impl Ranks {
    /// Shares what the ranks have measured, and sums their gradients, of which `own` are this one's.
    pub(in crate::run) fn sum_update(
        &mut self,
        own: &[(TreeNode, Gradients)],
        parameters: &Parameters,
        position: &Position,
    ) -> Result<RankedUpdate, RunError> {
        let count = parameters.len();
        let note = UpdateNote {
            measured: std::mem::take(&mut self.measured),
            nodes: (own.iter())
                .map(|(node, gradients)| NodeNote::of(*node, gradients, count))
                .collect(),
        };
        let bytes = postcard::to_allocvec(&note).unwrap_or_default();
        let said = Said {
            mark: position.update,
            bytes: &bytes,
            ..Said::default()
        };
        let heard = self.team.hear(Purpose::Update, said)?;
        let mut measured = Vec::new();
        let mut nodes = Vec::new();
        let is_synchronised = self.synchronises_batch_norm();
        let mut statistics = Vec::new();
        for rank in 0..self.team.size() {
            let note: UpdateNote = postcard::from_bytes(heard.of(rank)).map_err(|error| {
                let name = self.team.name_of(rank);
                TeamError::Apart(format!("what {name} has measured can't be read: {error}"))
            })?;
            // Synchronised statistics are those of a round, the same on all ranks; the first has a batch in each.
            if rank == 0 || !is_synchronised {
                statistics.extend(note.measured.iter().map(|batch| batch.statistics.clone()));
            }
            measured.extend(note.measured);
            nodes.push(note.nodes);
        }
        let sum = self.summation.sum(&self.team, parameters, own, &nodes);
        let gradients = sum.map_err(|error| match error {
            SumError::Team(error) => RunError::from(error),
            SumError::Tensor(error) => {
                RunError::task("summing gradients over ranks", position, error)
            }
        })?;
        Ok(RankedUpdate {
            gradients,
            measured,
            statistics,
        })
    }

    /// Spreads the settings of this rank and the others, if one has changed any.
    pub(in crate::run) fn share_settings(
        &mut self,
        heard: &Heard,
        own: Settings,
        shared: &BridgeState<'_>,
        task: &dyn Task,
    ) -> Result<(), RunError> {
        self.agreed = own.shared_by(&self.team, &self.agreed, heard, shared, task)?;
        Ok(())
    }

    /// Takes the settings as they are now for those of all ranks.
    pub(in crate::run) fn agree_on_settings(&mut self, shared: &BridgeState<'_>, task: &dyn Task) {
        self.agreed = Settings::of(shared, task);
    }

    /// Whether a rank's hook has asked to skip the update; settings that differ are shared.
    pub(in crate::run) fn agree_on_step(
        &mut self,
        is_skipped: bool,
        update: u64,
        shared: &BridgeState<'_>,
        task: &dyn Task,
    ) -> Result<bool, RunError> {
        let settings = Settings::of(shared, task);
        let said = Said {
            mark: update,
            flags: u16::from(is_skipped),
            number: settings.fingerprint(),
            ..Said::default()
        };
        let heard = self.team.hear(Purpose::Step, said)?;
        let is_skipped = heard.flags.iter().any(|flags| *flags != 0);
        self.share_settings(&heard, settings, shared, task)?;
        Ok(is_skipped)
    }
}
