//! Settings that hooks change, which all ranks must share: rates, momenta, frozen parameters, batches per update.
//!
//! A hook that runs on every rank changes them on every rank, at the same point. A change on one rank alone is noticed
//! at the next synchronisation, which is before the next step, and spread to all: each setting takes the value of the
//! lowest rank that has changed it.

use serde::{Deserialize, Serialize};

use super::failure::Leave;
use super::{RunError, Trainer};
use crate::team::{Heard, Purpose, Said, TeamError};

/// Settings that hooks change. Numbers are kept as bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Settings(Vec<u64>);

/// Stands for no value.
const NONE: u64 = u64::MAX;

impl Settings {
    /// A number that is the same for the same settings.
    pub(super) fn fingerprint(&self) -> u64 {
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
}

impl Trainer<'_> {
    /// The settings of this rank.
    pub(super) fn present_settings(&self) -> Settings {
        let groups = self.shared.groups.borrow();
        let optional = |value: Option<f64>| value.map_or(NONE, f64::to_bits);
        let mut words = vec![self.shared.accumulation.get().unwrap_or(NONE)];
        for group in groups.iter() {
            words.push(group.learning_rate.to_bits());
            words.push(optional(group.momentum));
        }
        let parameters = self.task.parameters().iter();
        words.extend(parameters.map(|parameter| parameter.share().to_bits()));
        Settings(words)
    }

    /// Makes other settings those of this rank.
    fn adopt(&self, settings: &Settings) {
        let optional = |word: u64| (word != NONE).then(|| f64::from_bits(word));
        let mut words = settings.0.iter().copied();
        let accumulation = words.next().filter(|word| *word != NONE);
        self.shared.accumulation.set(accumulation);
        let mut groups = self.shared.groups.borrow_mut();
        let names: Vec<String> = groups.iter().map(|group| group.name.to_string()).collect();
        let mut momenta = Vec::with_capacity(names.len());
        for name in &names {
            let (Some(rate), Some(momentum)) = (words.next(), words.next()) else {
                return;
            };
            // The names are the groups' own.
            drop(groups.set_learning_rate_of(name, f64::from_bits(rate)));
            momenta.push(optional(momentum));
        }
        groups.set_momentum(None);
        for (name, momentum) in names.iter().zip(momenta) {
            if let Some(momentum) = momentum {
                drop(groups.set_momentum_of(name, momentum));
            }
        }
        self.shared
            .learning_rate
            .set(groups.default().learning_rate);
        for (parameter, share) in self.task.parameters().iter().zip(words) {
            parameter.set_learning_rate_scale(f64::from_bits(share));
        }
    }

    /// Spreads settings if a rank has changed any; `heard` has the fingerprints of all ranks' settings, `own` are this
    /// one's.
    pub(super) fn share_settings(&mut self, heard: &Heard, own: Settings) -> Result<(), Leave> {
        let Some(ranks) = &mut self.ranks else {
            return Ok(());
        };
        if heard.different().next().is_none() {
            ranks.agreed = own;
            return Ok(());
        }
        let bytes = postcard::to_allocvec(&own).unwrap_or_default();
        let said = Said {
            bytes: &bytes,
            ..Said::default()
        };
        let heard = ranks.team.hear(Purpose::Settings, said);
        let heard = heard.map_err(RunError::from)?;
        let all: Result<Vec<Settings>, _> = (0..ranks.team.size())
            .map(|rank| postcard::from_bytes(heard.of(rank)))
            .collect();
        let all = all.map_err(|error| {
            let message = format!("a rank's settings can't be read: {error}");
            RunError::from(TeamError::Apart(message))
        })?;
        let merged = Settings::merged(&ranks.agreed, &all);
        ranks.agreed = merged.clone();
        self.adopt(&merged);
        Ok(())
    }

    /// Takes the settings as they are now for those of all ranks.
    pub(super) fn agree_on_present_settings(&mut self) {
        let settings = self.present_settings();
        if let Some(ranks) = &mut self.ranks {
            ranks.agreed = settings;
        }
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
