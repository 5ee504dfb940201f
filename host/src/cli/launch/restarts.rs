//! Starting a run again after an accident: how often, on how many ranks, and with which arguments.

use std::num::NonZeroUsize;

use clap::Args;

use super::watch::Ending;
use crate::cli::{output, resume};
use crate::diagnostic::Diagnostic;
use crate::team::meeting::RunNote;

/// Arguments of `sconce launch` for restarts.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct RestartArgs {
    /// How often the run is started again, from its last checkpoint, after a process was killed, has crashed or did not come
    /// back.
    #[arg(long, value_name = "N", conflicts_with = "check")]
    pub(super) restarts: Option<u32>,
    /// Goes on with fewer processes after some were killed, at least with this many.
    #[arg(long, value_name = "N", requires = "restarts")]
    pub(super) min_ranks: Option<NonZeroUsize>,
}

/// An attempt to finish a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Number of processes.
    pub(super) size: usize,
    /// Arguments of `sconce run`.
    pub(super) words: Vec<String>,
    /// How many more may follow.
    pub(super) left: u32,
}

impl Attempt {
    /// The attempt after this one, if its end was an accident and one is left. `run` is what its first rank has noted.
    pub(super) fn next(
        &self,
        ending: Ending,
        run: Option<&RunNote>,
        least: Option<NonZeroUsize>,
    ) -> Option<Attempt> {
        if !ending.is_accident() || self.left == 0 {
            return None;
        }
        let has_new = run.is_some_and(RunNote::has_new_checkpoint);
        let words = if has_new {
            let mut words = resume::without_resume(self.words.iter().cloned());
            words.push("--resume".to_owned());
            words
        } else {
            // As before: from the beginning, or from the checkpoint that this attempt has resumed from.
            self.words.clone()
        };
        let size = match least {
            Some(least) => {
                (self.size.saturating_sub(ending.killed)).max(least.get().min(self.size))
            }
            None => self.size,
        };
        Some(Attempt {
            size,
            words,
            left: self.left - 1,
        })
    }

    /// Says that this attempt begins, of `all` that are allowed.
    pub(super) fn announce(&self, all: u32) {
        let number = all - self.left;
        let from = if self.words.iter().any(|word| word.starts_with("--resume")) {
            "from its last checkpoint"
        } else {
            "from the beginning, since it has no checkpoint"
        };
        let ranks = match self.size {
            1 => String::new(),
            size => format!(" on {size} ranks"),
        };
        let warning = format!("restart {number} of {all}: the run goes on {from}{ranks}");
        output::diagnostics(&[Diagnostic::warning(warning)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;

    const KILLED: Ending = Ending {
        code: 137,
        killed: 2,
        is_requested: false,
    };

    fn attempt(size: usize) -> Attempt {
        Attempt {
            size,
            words: vec!["run.json".to_owned(), "--overwrite".to_owned()],
            left: 2,
        }
    }

    #[test]
    fn accidents_alone_are_followed_by_another_attempt() {
        let after = |ending| attempt(4).next(ending, None, None);
        let again = after(KILLED).expect("another");
        assert_eq!((again.left, again.size), (1, 4));
        assert_eq!(
            again.words,
            attempt(4).words,
            "there is nothing to resume from"
        );
        for code in [exit::DONE, exit::USAGE, exit::HOOK, exit::TRAINING, 143] {
            let ending = Ending {
                code,
                ..Ending::default()
            };
            assert_eq!(after(ending), None, "{code}");
        }
        for code in [exit::CRASH, exit::HANG] {
            let ending = Ending {
                code,
                ..Ending::default()
            };
            assert!(after(ending).is_some(), "{code}");
        }
        let requested = Ending {
            is_requested: true,
            ..KILLED
        };
        assert_eq!(after(requested), None);
        let last = Attempt {
            left: 0,
            ..attempt(4)
        };
        assert_eq!(last.next(KILLED, None, None), None);
    }

    #[test]
    fn killed_ranks_are_left_out_if_fewer_are_allowed() {
        let size = |begin, least| {
            let next = attempt(begin).next(KILLED, None, NonZeroUsize::new(least));
            next.map(|next| next.size)
        };
        assert_eq!(size(4, 1), Some(2));
        assert_eq!(size(4, 3), Some(3));
        assert_eq!(size(4, 9), Some(4));
        assert_eq!(size(1, 1), Some(1));
    }
}
