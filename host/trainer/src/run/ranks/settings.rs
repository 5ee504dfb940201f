//! Settings that hooks change, which all ranks must share: rates, momenta, weight decay, frozen parameters, batches per update.
//!
//! A hook that runs on every rank changes them on every rank, at the same point. A change on one rank alone is noticed
//! at the next synchronisation, which is before the next step, and spread to all: each setting takes the value of the
//! lowest rank that has changed it.

use serde::{Deserialize, Serialize};

use crate::bridge::BridgeState;
use crate::run::RunError;
use crate::task::Task;
use crate::team::{Heard, Purpose, Said, Team, TeamError};

/// Settings that hooks change. Numbers are kept as bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct Settings(Vec<u64>);

/// Stands for no value.
const NONE: u64 = u64::MAX;

impl Settings {
    /// A number that is the same for the same settings.
    pub(in crate::run) fn fingerprint(&self) -> u64 {
        // FNV-1a by words; a difference of one word always shows.
        self.0.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| {
            (hash ^ word)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23)
        })
    }

    /// The settings of all, where some have changed what was agreed on.
    fn merged(agreed: &Settings, all: &[Settings]) -> Settings {
        let merge = |(index, old): (usize, &u64)| {
            let mut found = all.iter().filter_map(|settings| settings.0.get(index));
            *found.find(|value| *value != old).unwrap_or(old)
        };
        Settings(agreed.0.iter().enumerate().map(merge).collect())
    }

    /// The settings of this rank.
    pub(in crate::run) fn of(shared: &BridgeState<'_>, task: &dyn Task) -> Settings {
        let groups = shared.optimizer.groups.borrow();
        let optional = |value: Option<f64>| value.map_or(NONE, f64::to_bits);
        let mut words = vec![shared.optimizer.accumulation.get().unwrap_or(NONE)];
        for group in groups.iter() {
            words.push(group.learning_rate.to_bits());
            words.push(optional(group.momentum));
            words.push(group.weight_decay.to_bits());
        }
        let parameters = task.parameters().iter();
        words.extend(parameters.map(|parameter| parameter.share().to_bits()));
        Settings(words)
    }

    /// Makes these the settings of this rank.
    fn adopt(&self, shared: &BridgeState<'_>, task: &dyn Task) {
        let optional = |word: u64| (word != NONE).then(|| f64::from_bits(word));
        let mut words = self.0.iter().copied();
        let accumulation = words.next().filter(|word| *word != NONE);
        shared.optimizer.accumulation.set(accumulation);
        let mut groups = shared.optimizer.groups.borrow_mut();
        let names: Vec<String> = groups.iter().map(|group| group.name.to_string()).collect();
        let mut momenta = Vec::with_capacity(names.len());
        for name in &names {
            let (Some(rate), Some(momentum), Some(decay)) =
                (words.next(), words.next(), words.next())
            else {
                return;
            };
            // The names are the groups' own.
            drop(groups.set_learning_rate_of(name, f64::from_bits(rate)));
            drop(groups.set_weight_decay_of(name, f64::from_bits(decay)));
            momenta.push(optional(momentum));
        }
        groups.set_momentum(None);
        for (name, momentum) in names.iter().zip(momenta) {
            if let Some(momentum) = momentum {
                drop(groups.set_momentum_of(name, momentum));
            }
        }
        shared
            .optimizer
            .learning_rate
            .set(groups.default().learning_rate);
        for (parameter, share) in task.parameters().iter().zip(words) {
            parameter.set_learning_rate_scale(f64::from_bits(share));
        }
    }

    /// Spreads settings if a rank has changed any of those `agreed` on. `heard` has the fingerprints of all ranks' settings;
    /// these are this one's. Returns what is agreed on now.
    ///
    /// # Errors
    ///
    /// If a rank can't be reached, or says what can't be understood.
    pub(in crate::run) fn shared_by(
        self,
        team: &Team,
        agreed: &Settings,
        heard: &Heard,
        shared: &BridgeState<'_>,
        task: &dyn Task,
    ) -> Result<Settings, RunError> {
        if heard.different().next().is_none() {
            return Ok(self);
        }
        let bytes = postcard::to_allocvec(&self).unwrap_or_default();
        let said = Said {
            bytes: &bytes,
            ..Said::default()
        };
        let heard = team.hear(Purpose::Settings, said)?;
        let all: Result<Vec<Settings>, _> = (0..team.size())
            .map(|rank| postcard::from_bytes(heard.of(rank)))
            .collect();
        let all = all.map_err(|error| {
            TeamError::Apart(format!("a rank's settings can't be read: {error}"))
        })?;
        let merged = Settings::merged(agreed, &all);
        merged.adopt(shared, task);
        Ok(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_that_of_the_lowest_rank_that_changed_it() {
        let agreed = Settings(vec![1, 2, 3, 4]);
        let all = [
            Settings(vec![1, 2, 3, 9]),
            Settings(vec![1, 7, 3, 8]),
            Settings(vec![1, 6, 3, 4]),
        ];
        let merged = Settings::merged(&agreed, &all);
        assert_eq!(merged, Settings(vec![1, 7, 3, 9]));
        assert_ne!(merged.fingerprint(), agreed.fingerprint());
    }
}
