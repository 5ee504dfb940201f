//! Records which checkpoints exist and decides which are still wanted; performs no file operations.

use sconce_plugin_api::ext::check_tag;
use sconce_plugin_api::prelude::*;

/// The checkpoints that are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    /// Saved by epochs, iterations and minutes, newest last.
    periodic: Vec<Entry>,
    /// Best checkpoints of each metric, best first.
    best: Vec<Vec<Ranked>>,
    /// Iteration of the newest checkpoint.
    iteration: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    tag: String,
    /// Epoch or iteration at which it was saved, whichever triggered the save.
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ranked {
    tag: String,
    value: f64,
    /// What the host keeps for this state; none until it is saved.
    #[serde(default)]
    reference: Option<CheckpointRef>,
}

impl Ledger {
    /// Rejects states that no run saves.
    pub(crate) fn check(&self) -> Result<()> {
        let best = self.best.iter().flatten().map(|ranked| &ranked.tag);
        for tag in self.periodic.iter().map(|entry| &entry.tag).chain(best) {
            check_tag(tag).map_err(|reason| HookError::new(format_args!("the state: {reason}")))?;
        }
        for entry in &self.periodic {
            state::check_count("ledger.periodic", entry.number)?;
        }
        state::check_count("ledger.iteration", self.iteration.unwrap_or(0))
    }

    /// Records a checkpoint saved by epochs, iterations or minutes; returns the tags no longer wanted.
    pub(crate) fn add(
        &mut self,
        tag: &str,
        number: u64,
        keep_last: Option<usize>,
        keep_every: Option<u64>,
    ) -> Vec<String> {
        self.periodic.retain(|entry| entry.tag != tag);
        let tag = tag.to_owned();
        self.periodic.push(Entry { tag, number });
        let is_spared =
            |entry: &Entry| keep_every.is_some_and(|every| entry.number.is_multiple_of(every));
        let kept = keep_last.unwrap_or(usize::MAX);
        let mut doomed = Vec::new();
        let mut newer = self.periodic.len();
        self.periodic.retain(|entry| {
            newer -= 1;
            let stays = newer < kept || is_spared(entry);
            if !stays {
                doomed.push(entry.tag.clone());
            }
            stays
        });
        doomed.retain(|tag| !self.is_wanted(tag));
        doomed
    }

    /// Returns whether a value of the metric with index `metric` is among its `keep` best. NaN never is.
    pub(crate) fn is_among_best(&self, metric: usize, value: f64, rule: Rule, keep: usize) -> bool {
        let ranked = self.best.get(metric).map_or(&[][..], Vec::as_slice);
        match ranked.get(keep.saturating_sub(1)) {
            Some(worst) => rule.is_better(value, worst.value),
            None => value.is_finite(),
        }
    }

    /// Records a checkpoint among the best of a metric; returns the tags no longer wanted.
    pub(crate) fn rank(
        &mut self,
        metric: usize,
        tag: &str,
        value: f64,
        rule: Rule,
        keep: usize,
    ) -> Vec<String> {
        if self.best.len() <= metric {
            self.best.resize(metric + 1, Vec::new());
        }
        let Some(ranked) = self.best.get_mut(metric) else {
            return Vec::new();
        };
        ranked.retain(|other| other.tag != tag);
        // After equal values, so that the earlier of two ranks higher.
        let place = ranked.partition_point(|other| !rule.is_better(value, other.value));
        let tag = tag.to_owned();
        ranked.insert(
            place,
            Ranked {
                tag,
                value,
                reference: None,
            },
        );
        let mut doomed: Vec<String> = ranked
            .drain(keep.min(ranked.len())..)
            .map(|r| r.tag)
            .collect();
        doomed.retain(|tag| !self.is_wanted(tag));
        doomed
    }

    /// Records that a checkpoint is on disk under these tags.
    pub(crate) fn saved(&mut self, tags: &[String], reference: &CheckpointRef) -> Result<()> {
        for ranked in self.best.iter_mut().flatten() {
            if tags.contains(&ranked.tag) {
                ranked.reference = Some(reference.copied_to(&ranked.tag)?);
            }
        }
        Ok(())
    }

    /// Forgets the checkpoints that `is_gone` says of; returns the tags of the best ones among them.
    pub(crate) fn forget(
        &mut self,
        is_gone: impl Fn(&str, Option<&CheckpointRef>) -> bool,
    ) -> Vec<String> {
        self.periodic.retain(|entry| !is_gone(&entry.tag, None));
        let mut forgotten = Vec::new();
        for ranked in &mut self.best {
            ranked.retain(|one| {
                let stays = !is_gone(&one.tag, one.reference.as_ref());
                if !stays {
                    forgotten.push(one.tag.clone());
                }
                stays
            });
        }
        forgotten
    }

    /// Records the iteration of the newest checkpoint.
    pub(crate) fn saved_at(&mut self, iteration: u64) {
        self.iteration = Some(iteration);
    }

    /// Returns whether the state at this iteration is saved.
    pub(crate) fn has(&self, iteration: u64) -> bool {
        self.iteration == Some(iteration) && !self.periodic.is_empty()
    }

    /// Returns the newest checkpoint by epochs, iterations and minutes.
    pub(crate) fn newest(&self) -> Option<&str> {
        self.periodic.last().map(|entry| entry.tag.as_str())
    }

    /// Returns the best checkpoint of a metric.
    pub(crate) fn best(&self, metric: usize) -> Option<&str> {
        self.best_with_value(metric).map(|(tag, _, _)| tag)
    }

    /// Returns the best checkpoint of a metric, the metric's value, and the reference once it is saved.
    pub(crate) fn best_with_value(
        &self,
        metric: usize,
    ) -> Option<(&str, f64, Option<&CheckpointRef>)> {
        let ranked = self.best.get(metric)?.first()?;
        Some((ranked.tag.as_str(), ranked.value, ranked.reference.as_ref()))
    }

    /// Returns whether a checkpoint is kept for any reason.
    pub(crate) fn is_wanted(&self, tag: &str) -> bool {
        self.periodic.iter().any(|entry| entry.tag == tag)
            || self.best.iter().flatten().any(|ranked| ranked.tag == tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_few_are_kept_and_every_so_many_of_the_others() {
        let doomed = |keep_last, keep_every| -> Vec<String> {
            let mut ledger = Ledger::default();
            (1..=6)
                .flat_map(|epoch| ledger.add(&format!("e{epoch}"), epoch, keep_last, keep_every))
                .collect()
        };
        assert!(doomed(None, None).is_empty() && doomed(None, Some(2)).is_empty());
        assert_eq!(doomed(Some(2), None), ["e1", "e2", "e3", "e4"]);
        assert_eq!(doomed(Some(1), Some(3)), ["e1", "e2", "e4", "e5"]);
    }

    #[test]
    fn a_tag_that_is_used_again_is_one_checkpoint() {
        let mut ledger = Ledger::default();
        assert!(ledger.add("last", 1, Some(1), None).is_empty());
        assert!(ledger.add("last", 2, Some(1), None).is_empty());
        assert_eq!(ledger.newest(), Some("last"));
    }

    #[test]
    fn the_best_are_ranked_and_the_earlier_of_two_alike_counts() {
        let mut ledger = Ledger::default();
        let mut doomed = Vec::new();
        for (tag, value) in [("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 1.0), ("e", 9.0)] {
            if ledger.is_among_best(0, value, Rule::Less, 2) {
                doomed.extend(ledger.rank(0, tag, value, Rule::Less, 2));
            }
        }
        assert_eq!(doomed, ["a", "c"]);
        assert_eq!(ledger.best(0), Some("b"));
        for rule in [Rule::Less, Rule::Greater] {
            assert!(!ledger.is_among_best(0, f64::NAN, rule, 2));
            assert!(!ledger.is_among_best(1, f64::NAN, rule, 1));
        }
        assert!(ledger.is_among_best(1, -1.0, Rule::Greater, 1));
    }

    #[test]
    fn what_another_list_wants_stays() {
        let mut ledger = Ledger::default();
        ledger.rank(0, "e1", 0.5, Rule::Less, 1);
        ledger.add("e1", 1, Some(1), None);
        assert!(
            ledger.add("e2", 2, Some(1), None).is_empty(),
            "e1 is the best"
        );
        assert_eq!(ledger.rank(0, "e2", 0.25, Rule::Less, 1), ["e1"]);
    }
}
