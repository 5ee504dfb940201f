//! Evaluations whose batches are divided among ranks.
//!
//! The batches are dealt out in turn. What ranks have measured is shared every so many batches, and added in the order of
//! batches: metrics have the bits of one process. Where a hook is called within the pass, it would see a part of the
//! batches only; then every rank evaluates all of them.

use sconce_plugin_api::{Phase, Point};

use super::state::{PartEvaluation, is_within_batch};
use crate::run::failure::Leave;
use crate::run::iteration::measured::BatchSums;
use crate::run::{RunError, Trainer};
use crate::team::{Purpose, Said, TeamError};

/// Numbers that a rank keeps, at most, before results are shared.
const KEPT: usize = 1 << 18;

impl Trainer<'_> {
    /// Whether ranks share an evaluation; all of them call this. Returns the indices of this rank's batches.
    pub(in crate::run) fn divide_evaluation(
        &mut self,
        phase: Phase,
        batches: u64,
    ) -> Result<Vec<u64>, Leave> {
        let Some(ranks) = &self.ranks else {
            return Ok((0..batches).collect());
        };
        let within = Point::ALL
            .iter()
            .copied()
            .filter(|point| is_within_batch(*point));
        let mut within = within.map(|point| self.hooks.is_subscribed(point, phase));
        let listens = within.any(|listens| listens) || !ranks.shares_evaluations();
        let said = Said {
            flags: u16::from(listens),
            mark: batches,
            ..Said::default()
        };
        let heard = ranks.team.hear(Purpose::Evaluation, said);
        let heard = heard.map_err(RunError::from)?;
        if heard.flags.iter().any(|flags| *flags != 0) {
            return Ok((0..batches).collect());
        }
        let ranked = ranks.ranked();
        let own = (0..batches).filter(|batch| batch % ranked.size == ranked.rank);
        let own: Vec<u64> = own.collect();
        if let Some(ranks) = &mut self.ranks {
            ranks.measured.clear();
            ranks.evaluation = Some(PartEvaluation {
                batches,
                own: own.iter().rev().copied().collect(),
                shared: 0,
            });
        }
        Ok(own)
    }

    /// Number of batches of a rank after which results are shared.
    fn chunk(&self) -> usize {
        (KEPT / (self.task.sum_count() + 8)).max(1)
    }

    /// Keeps what this rank has measured of an evaluation, if batches are divided; whether it has been kept.
    pub(in crate::run) fn keep_evaluated(
        &mut self,
        phase: Phase,
        measured: &BatchSums,
    ) -> Result<bool, Leave> {
        let chunk = self.chunk();
        let Some(ranks) = &mut self.ranks else {
            return Ok(false);
        };
        let Some(part) = &mut ranks.evaluation else {
            return Ok(false);
        };
        let batch = part.own.pop().unwrap_or_default();
        ranks.measured.push(measured.of_batch(batch, Vec::new()));
        if ranks.measured.len() >= chunk {
            self.share_chunk(phase)?;
        }
        Ok(true)
    }

    /// Shares what ranks have measured since the last time.
    fn share_chunk(&mut self, phase: Phase) -> Result<(), Leave> {
        let Some(ranks) = &mut self.ranks else {
            return Ok(());
        };
        let own = std::mem::take(&mut ranks.measured);
        let bytes = postcard::to_allocvec(&own).unwrap_or_default();
        let part = ranks.evaluation.as_mut();
        let shared = part.map_or(0, |part| {
            part.shared += 1;
            part.shared
        });
        let said = Said {
            mark: shared,
            bytes: &bytes,
            ..Said::default()
        };
        let heard = ranks.team.hear(Purpose::Evaluation, said);
        let heard = heard.map_err(RunError::from)?;
        let mut all: Vec<BatchSums> = Vec::new();
        for rank in 0..ranks.team.size() {
            let measured: Vec<BatchSums> =
                postcard::from_bytes(heard.of(rank)).map_err(|error| {
                    let name = ranks.team.name_of(rank);
                    let message = format!("what {name} has measured can't be read: {error}");
                    RunError::from(TeamError::Apart(message))
                })?;
            all.extend(measured);
        }
        all.sort_by_key(|measured| measured.batch);
        self.add_batches(phase, &all);
        Ok(())
    }

    /// Shares the rest of an evaluation's results.
    pub(in crate::run) fn end_divided(&mut self, phase: Phase) -> Result<(), Leave> {
        let chunk = self.chunk() as u64;
        let part = self.ranks.as_ref().and_then(|ranks| {
            let part = ranks.evaluation.as_ref()?;
            let rounds = part.batches.div_ceil(ranks.ranked().size);
            Some((rounds.div_ceil(chunk), part.batches))
        });
        let Some((times, batches)) = part else {
            return Ok(());
        };
        let shared = |trainer: &Self| {
            let evaluation = trainer.ranks.as_ref()?.evaluation.as_ref()?;
            Some(evaluation.shared)
        };
        while shared(self).is_some_and(|shared| shared < times) {
            self.share_chunk(phase)?;
        }
        if let Some(ranks) = &mut self.ranks {
            ranks.evaluation = None;
        }
        self.position.pass.batch = batches;
        Ok(())
    }
}
