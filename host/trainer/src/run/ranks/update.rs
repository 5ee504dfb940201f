//! An update on several ranks: what each has measured, and the sum of their gradients.

use sconce_plugin_api::Phase;
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::gradients::Gradients;
use crate::run::failure::Leave;
use crate::run::iteration::measured::BatchSums;
use crate::run::{RunError, Trainer};
use crate::team::{Heard, NodeNote, Purpose, Said, SumError, TeamError};

/// What a rank knows of an update.
#[derive(Debug, Default, Serialize, Deserialize)]
struct UpdateNote {
    /// What it has measured, in the order of batches.
    measured: Vec<BatchSums>,
    /// The nodes of its gradients, in the order of batches.
    nodes: Vec<NodeNote>,
}

impl Trainer<'_> {
    /// Shares what the ranks have measured, and sums their gradients; `None` if no batch has any.
    pub(in crate::run) fn joint_gradients(&mut self) -> Result<Option<Gradients>, Leave> {
        let own = self.update.accumulated.take();
        let count = self.task.parameters().len();
        let Some(ranks) = &mut self.ranks else {
            return Ok(None);
        };
        let note = UpdateNote {
            measured: std::mem::take(&mut ranks.measured),
            nodes: (own.iter())
                .map(|(node, gradients)| NodeNote::of(*node, gradients, count))
                .collect(),
        };
        let bytes = postcard::to_allocvec(&note).unwrap_or_default();
        let said = Said {
            mark: self.position.update,
            bytes: &bytes,
            ..Said::default()
        };
        let heard = ranks.team.hear(Purpose::Update, said);
        let heard = heard.map_err(RunError::from)?;
        let mut measured = Vec::new();
        let mut nodes = Vec::new();
        let is_synchronised = ranks.synchronises_batch_norm();
        let mut statistics = Vec::new();
        for rank in 0..ranks.team.size() {
            let note: UpdateNote = postcard::from_bytes(heard.of(rank)).map_err(|error| {
                let name = ranks.team.name_of(rank);
                let message = format!("what {name} has measured can't be read: {error}");
                RunError::from(TeamError::Apart(message))
            })?;
            // Synchronised statistics are those of a round, the same on all ranks; the first has a batch in each.
            if rank == 0 || !is_synchronised {
                statistics.extend(note.measured.iter().map(|batch| batch.statistics.clone()));
            }
            measured.extend(note.measured);
            nodes.push(note.nodes);
        }
        let parameters = self.task.parameters();
        let sum = ranks.summation.sum(&ranks.team, parameters, &own, &nodes);
        let sum = sum.map_err(|error| match error {
            SumError::Team(error) => RunError::from(error),
            SumError::Tensor(error) => {
                RunError::task("summing gradients over ranks", &self.position, error)
            }
        })?;
        for batch in &measured {
            self.update.weight.add(batch.loss_weight());
        }
        self.track_statistics(&statistics)?;
        self.add_batches(Phase::Train, &measured);
        Ok(sum)
    }

    /// Spreads the settings of this rank and the others, if one has changed any.
    pub(in crate::run) fn share_settings(
        &mut self,
        heard: &Heard,
        own: Settings,
    ) -> Result<(), Leave> {
        if let Some(ranks) = &mut self.ranks {
            ranks.agreed =
                own.shared_by(&ranks.team, &ranks.agreed, heard, self.shared, self.task)?;
        }
        Ok(())
    }

    /// Takes the settings as they are now for those of all ranks.
    pub(in crate::run) fn agree_on_settings(&mut self) {
        if let Some(ranks) = &mut self.ranks {
            ranks.agreed = Settings::of(self.shared, self.task);
        }
    }

    /// Whether a rank's hook has asked to skip the update; settings that differ are shared.
    pub(in crate::run) fn agree_on_step(&mut self, is_skipped: bool) -> Result<bool, Leave> {
        let settings = Settings::of(self.shared, self.task);
        let Some(ranks) = &self.ranks else {
            return Ok(is_skipped);
        };
        let said = Said {
            mark: self.position.update,
            flags: u16::from(is_skipped),
            number: settings.fingerprint(),
            ..Said::default()
        };
        let heard = ranks.team.hear(Purpose::Step, said);
        let heard = heard.map_err(RunError::from)?;
        let is_skipped = heard.flags.iter().any(|flags| *flags != 0);
        self.share_settings(&heard, settings)?;
        Ok(is_skipped)
    }
}
