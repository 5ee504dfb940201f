//! Evaluations whose batches are divided among ranks.
//!
//! The batches are dealt out in turn. What ranks have measured is shared every so many batches, and added in the order of
//! batches: metrics have the bits of one process. Where a hook is called within the pass, it would see a part of the
//! batches only; then every rank evaluates all of them.

use sconce_plugin_api::{Phase, Point};

use super::state::{PartEvaluation, Ranks, is_within_batch};
use crate::dispatch::Dispatcher;
use crate::run::RunError;
use crate::run::sums::batch_sums::BatchSums;
use crate::team::{Purpose, Said, TeamError};

/// Numbers that a rank keeps, at most, before results are shared.
const KEPT: usize = 1 << 18;

/// Number of batches of a rank after which results are shared, if each has this many sums.
fn chunk(sums: usize) -> usize {
    (KEPT / (sums + 8)).max(1)
}

impl Ranks {
    /// Whether ranks share an evaluation; all of them call this. Returns the indices of this rank's batches.
    pub(in crate::run) fn divide_evaluation(
        &mut self,
        phase: Phase,
        batches: u64,
        hooks: &Dispatcher,
    ) -> Result<Vec<u64>, RunError> {
        let listens_at =
            |point: &Point| is_within_batch(*point) && hooks.is_subscribed(*point, phase);
        let listens = Point::ALL.iter().any(listens_at) || !self.shares_evaluations();
        let said = Said {
            flags: u16::from(listens),
            mark: batches,
            ..Said::default()
        };
        let heard = self.team.hear(Purpose::Evaluation, said)?;
        if heard.flags.iter().any(|flags| *flags != 0) {
            return Ok((0..batches).collect());
        }
        let ranked = self.ranked();
        let own: Vec<u64> = (0..batches)
            .filter(|batch| batch % ranked.size == ranked.rank)
            .collect();
        self.measured.clear();
        self.evaluation = Some(PartEvaluation {
            batches,
            own: own.iter().rev().copied().collect(),
            shared: 0,
        });
        Ok(own)
    }

    /// Keeps what this rank has measured of an evaluation whose batches are divided. Returns what all ranks have measured
    /// since the last time, if it is time to share that.
    pub(in crate::run) fn keep_evaluated(
        &mut self,
        measured: &BatchSums,
        sums: usize,
    ) -> Result<Option<Vec<BatchSums>>, RunError> {
        let next = self.evaluation.as_mut().and_then(|part| part.own.pop());
        let batch = next.unwrap_or_default();
        self.measured.push(measured.of_batch(batch, Vec::new()));
        let is_time = self.measured.len() >= chunk(sums);
        is_time.then(|| self.share_evaluated()).transpose()
    }

    /// Shares what is left of an evaluation's results, by parts; `None` once all are shared.
    pub(in crate::run) fn share_rest(
        &mut self,
        sums: usize,
    ) -> Result<Option<Vec<BatchSums>>, RunError> {
        let Some(part) = &self.evaluation else {
            return Ok(None);
        };
        let rounds = part.batches.div_ceil(self.ranked().size);
        let is_left = part.shared < rounds.div_ceil(chunk(sums) as u64);
        is_left.then(|| self.share_evaluated()).transpose()
    }

    /// Shares what ranks have measured since the last time, and returns it in the order of batches.
    fn share_evaluated(&mut self) -> Result<Vec<BatchSums>, RunError> {
        let own = std::mem::take(&mut self.measured);
        let bytes = postcard::to_allocvec(&own).unwrap_or_default();
        let shared = self.evaluation.as_mut().map_or(0, |part| {
            part.shared += 1;
            part.shared
        });
        let said = Said {
            mark: shared,
            bytes: &bytes,
            ..Said::default()
        };
        let heard = self.team.hear(Purpose::Evaluation, said)?;
        let mut all: Vec<BatchSums> = Vec::new();
        for rank in 0..self.team.size() {
            let measured: Vec<BatchSums> =
                postcard::from_bytes(heard.of(rank)).map_err(|error| {
                    let name = self.team.name_of(rank);
                    TeamError::Apart(format!("what {name} has measured can't be read: {error}"))
                })?;
            all.extend(measured);
        }
        all.sort_by_key(|measured| measured.batch);
        Ok(all)
    }
}
