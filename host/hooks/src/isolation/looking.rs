//! Whether a hook's process looks out for a message before it sleeps.
//!
//! Being woken takes longer than most calls of a hook. Looking out for the next message saves that where it comes soon, and takes a core from
//! the training where it does not. Which messages come soon depends on the mount points and repeats from step to step: it is predicted from
//! the last few, as a processor predicts its branches.

use std::time::Duration;

/// How long to look before sleeping: as long as an exchange takes in which the hook's process is woken, and more.
pub(super) const LOOKING: Duration = Duration::from_micros(20);

/// About how long it takes to be woken, on an idle core.
const WAKING: Duration = Duration::from_micros(10);

/// How many of the last messages a prediction depends on.
const REMEMBERED: u32 = 8;

/// How many messages must have come soon in a situation before the process looks out for the next one there; a late one undoes as many.
const TRUSTED: u8 = 16;

/// Which messages have come soon, and in which situations: after which of the last [`REMEMBERED`] did.
#[derive(Debug)]
pub(super) struct Looking {
    /// The last messages, a bit each: whether it came soon. This is the situation.
    last: usize,
    /// For each situation, how many of the next messages came soon, less what late ones have undone.
    counts: [u8; 1 << REMEMBERED],
}

impl Default for Looking {
    fn default() -> Self {
        Looking {
            last: 0,
            counts: [0; 1 << REMEMBERED],
        }
    }
}

impl Looking {
    /// Whether the next message will likely come within [`LOOKING`].
    pub(super) fn pays(&self) -> bool {
        self.counts[self.last] >= TRUSTED
    }

    /// Notes when the message came: `waited` after the one before was answered, with the time to be woken if this process has slept.
    pub(super) fn note(&mut self, waited: Duration) {
        let looked = self.pays();
        let most = if looked { LOOKING } else { LOOKING + WAKING };
        let was_soon = waited < most;
        let count = &mut self.counts[self.last];
        *count = if was_soon {
            (*count + 1).min(2 * TRUSTED)
        } else {
            count.saturating_sub(TRUSTED)
        };
        self.last = (self.last << 1 | usize::from(was_soon)) % self.counts.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_micros(5);
    const LATE: Duration = Duration::from_millis(1);

    /// How often the process looks out, and how often in vain, in some rounds of these messages.
    fn looks(looking: &mut Looking, rounds: usize, messages: &[Duration]) -> (usize, usize) {
        let (mut looks, mut vain) = (0, 0);
        for _ in 0..rounds {
            for waited in messages {
                let pays = looking.pays();
                looks += usize::from(pays);
                vain += usize::from(pays && *waited > LOOKING);
                looking.note(*waited);
            }
        }
        (looks, vain)
    }

    #[test]
    fn what_repeats_is_predicted() {
        let mut looking = Looking::default();
        let step = [LATE, SOON, SOON, LATE, SOON];
        looks(&mut looking, 40, &step);
        assert_eq!(looks(&mut looking, 100, &step), (300, 0));
        // The steps become long ones.
        looks(&mut looking, 20, &[LATE]);
        assert_eq!(looks(&mut looking, 100, &[LATE]), (0, 0));
    }

    #[test]
    fn looking_in_vain_for_what_comes_just_too_late_is_rare() {
        let mut looking = Looking::default();
        let (looks, vain) = looks(&mut looking, 1000, &[LOOKING + SOON]);
        assert_eq!(looks, vain);
        assert!((1..=60).contains(&looks), "{looks}");
    }
}
