//! The end of a run on several ranks: all end together, with the same error.

use super::state::Ranks;
use crate::run::RunError;
use crate::team::{Purpose, Said};

impl Ranks {
    /// Waits for the other ranks at the end of the run, or tells them why this one ends. Returns the error that ends it.
    pub(in crate::run) fn end(&self, error: Option<RunError>) -> Option<RunError> {
        match error {
            None => {
                let heard = self.team.hear(Purpose::End, Said::default());
                heard.err().map(RunError::from)
            }
            // The others have noticed it too.
            Some(error @ RunError::Team(_)) => Some(error),
            Some(error) => {
                self.team.fail(error.code(), &error.to_string());
                Some(error)
            }
        }
    }

    /// Whether a condition holds on all ranks; `false` if they can't be asked.
    pub(in crate::run) fn all_agree(&self, holds: bool) -> bool {
        if self.team.is_broken() {
            return false;
        }
        let said = Said {
            flags: u16::from(holds),
            ..Said::default()
        };
        let heard = self.team.hear(Purpose::States, said);
        heard.is_ok_and(|heard| heard.flags.iter().all(|flags| *flags == 1))
    }

    /// Whether this process writes what the run leaves behind.
    pub(in crate::run) fn is_first(&self) -> bool {
        self.team.is_first()
    }
}
