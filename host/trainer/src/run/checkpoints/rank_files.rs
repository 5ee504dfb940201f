//! Files of a run on several ranks: the first rank reads and writes them, and all learn the result.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::saver::known;
use crate::checkpoint::{Checkpoint, RankFacts, Store};
use crate::dispatch::Dispatcher;
use crate::run::RunError;
use crate::run::ranks::state::Ranks;
use crate::team::{Purpose, Said, TeamError};

/// A hook's state on one rank, by the hook's name.
type NamedState = (String, Option<Vec<u8>>);

/// Does work on files: on the first rank alone, whose result all get.
pub(in crate::run) fn on_first<T: Serialize + DeserializeOwned>(
    ranks: Option<&Ranks>,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<Result<T, String>, RunError> {
    let Some(ranks) = ranks else {
        return Ok(work());
    };
    let bytes = (ranks.team).from_first(|| postcard::to_allocvec(&work()).unwrap_or_default())?;
    Ok(postcard::from_bytes(&bytes).map_err(|error| {
        TeamError::Apart(format!("the first rank's result can't be read: {error}"))
    })?)
}

/// Reads a checkpoint of this run.
pub(in crate::run) fn read_together(
    store: &Store,
    tag: &str,
    ranks: Option<&Ranks>,
) -> Result<Result<Checkpoint, String>, RunError> {
    let explained = |error: &dyn ToString| {
        let error = error.to_string();
        format!("{error}{}", known(&store.tags()))
    };
    if ranks.is_none() {
        return Ok(store.read(tag).map_err(|error| explained(&error)));
    }
    let files = on_first(ranks, || {
        store.read_raw(tag).map_err(|error| explained(&error))
    })?;
    Ok(files.and_then(|files| files.parse().map_err(|error| error.to_string())))
}

impl Ranks {
    /// Brings the states of all ranks' hooks together; those that differ are kept.
    pub(in crate::run) fn gather_states(
        &mut self,
        states: &[Option<Vec<u8>>],
        hooks: &Dispatcher,
        update: u64,
    ) -> Result<(), RunError> {
        let names = hooks.hooks().iter().map(|hook| hook.spec.name.clone());
        let own: Vec<NamedState> = names.zip(states.iter().cloned()).collect();
        let bytes = postcard::to_allocvec(&own).unwrap_or_default();
        let said = Said {
            mark: update,
            bytes: &bytes,
            ..Said::default()
        };
        let heard = self.team.hear(Purpose::States, said)?;
        let all: Vec<Vec<NamedState>> = (0..self.team.size())
            .map(|rank| postcard::from_bytes(heard.of(rank)))
            .collect::<Result<_, _>>()
            .map_err(|error| {
                TeamError::Apart(format!("a rank's hook states can't be read: {error}"))
            })?;
        self.states.clear();
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
                self.states.insert(name.clone(), of_ranks);
            }
        }
        Ok(())
    }

    /// The states of a hook on all ranks, if they differed when they were last brought together.
    pub(in crate::run) fn states_of(&self, hook: &str) -> Vec<Option<Vec<u8>>> {
        self.states.get(hook).cloned().unwrap_or_default()
    }

    /// What a checkpoint says of the run's ranks, if the manifest says to accumulate this many batches.
    pub(in crate::run) fn facts(&self, accumulate: usize) -> RankFacts {
        RankFacts {
            ranks: self.ranked().size,
            accumulate: (accumulate as u64).saturating_mul(self.batches_factor()),
        }
    }
}
