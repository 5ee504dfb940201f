//! Files of a run on several ranks: the first rank reads and writes them, and all learn the result.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::restore::known;
use super::save_options::CheckpointExtent;
use crate::checkpoint::{Checkpoint, RankFacts, Saved, Store};
use crate::run::failure::Leave;
use crate::run::{RunError, Trainer};
use crate::team::{Purpose, Said, TeamError};

/// A hook's state on one rank, by the hook's name.
type NamedState = (String, Option<Vec<u8>>);

impl Trainer<'_> {
    /// Does work on files: on the first rank alone, whose result all get.
    pub(in crate::run) fn on_first<T: Serialize + DeserializeOwned>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<Result<T, String>, Leave> {
        let Some(team) = self.ranks.as_ref().map(|ranks| ranks.team.clone()) else {
            return Ok(work(self));
        };
        let bytes = team.from_first(|| postcard::to_allocvec(&work(self)).unwrap_or_default());
        let bytes = bytes.map_err(RunError::from)?;
        let result = postcard::from_bytes(&bytes);
        Ok(result.map_err(|error| {
            let message = format!("the first rank's result can't be read: {error}");
            RunError::from(TeamError::Apart(message))
        })?)
    }

    /// Reads a checkpoint of this run.
    pub(in crate::run) fn read_together(
        &mut self,
        store: &Store,
        tag: &str,
    ) -> Result<Result<Checkpoint, String>, Leave> {
        let explained = |error: &dyn ToString| {
            let error = error.to_string();
            format!("{error}{}", known(&store.tags()))
        };
        if self.ranks.is_none() {
            return Ok(store.read(tag).map_err(|error| explained(&error)));
        }
        let files = self.on_first(|_| store.read_raw(tag).map_err(|error| explained(&error)))?;
        Ok(files.and_then(|files| files.parse().map_err(|error| error.to_string())))
    }

    /// Writes a checkpoint with the states of all ranks' hooks. `states` are those of this rank's.
    pub(in crate::run) fn write_together(
        &mut self,
        store: &Store,
        tag: &str,
        states: Vec<Option<Vec<u8>>>,
        is_exact: bool,
        extent: CheckpointExtent,
    ) -> Result<Result<Saved, String>, Leave> {
        self.gather_states(&states)?;
        self.on_first(|trainer| {
            let files = trainer.files(tag, states, is_exact, extent);
            let files = files.map_err(|error| error.to_string())?;
            let written = files.and_then(|files| store.write(&files));
            written.map_err(|error| error.to_string())
        })
    }

    /// Brings the states of all ranks' hooks together; those that differ are kept.
    fn gather_states(&mut self, states: &[Option<Vec<u8>>]) -> Result<(), Leave> {
        let names = self.hooks.hooks().iter().map(|hook| hook.spec.name.clone());
        let own: Vec<NamedState> = names.zip(states.iter().cloned()).collect();
        let Some(ranks) = &mut self.ranks else {
            return Ok(());
        };
        let bytes = postcard::to_allocvec(&own).unwrap_or_default();
        let said = Said {
            mark: self.position.update,
            bytes: &bytes,
            ..Said::default()
        };
        let heard = ranks
            .team
            .hear(Purpose::States, said)
            .map_err(RunError::from)?;
        let all: Result<Vec<Vec<NamedState>>, _> = (0..ranks.team.size())
            .map(|rank| postcard::from_bytes(heard.of(rank)))
            .collect();
        let all = all.map_err(|error| {
            let message = format!("a rank's hook states can't be read: {error}");
            RunError::from(TeamError::Apart(message))
        })?;
        ranks.states.clear();
        for (name, state) in &own {
            let of_rank = |states: &Vec<NamedState>| {
                let found = states.iter().find(|(known, _)| known == name);
                found.map(|(_, state)| state.clone())
            };
            // Only hooks that run on all ranks have one on each.
            let Some(of_ranks) = all.iter().map(of_rank).collect::<Option<Vec<_>>>() else {
                continue;
            };
            if of_ranks.iter().any(|other| other != state) {
                ranks.states.insert(name.clone(), of_ranks);
            }
        }
        Ok(())
    }

    /// The states of a hook on all ranks, if they differed when they were last brought together.
    pub(in crate::run) fn states_of_ranks(&self, hook: &str) -> Vec<Option<Vec<u8>>> {
        let states = self.ranks.as_ref().and_then(|ranks| ranks.states.get(hook));
        states.cloned().unwrap_or_default()
    }

    /// What a checkpoint says of the run's ranks.
    pub(in crate::run) fn rank_facts(&self) -> Option<RankFacts> {
        let ranks = self.ranks.as_ref()?;
        Some(RankFacts {
            ranks: ranks.ranked().size,
            accumulate: (self.plan.accumulate as u64).saturating_mul(ranks.batches_factor()),
        })
    }
}
