//! Starting a run again after an accident: how often, on how many ranks, and with which arguments.

use std::num::NonZeroUsize;

use clap::Args;

use super::watch::Ending;
use crate::checkpoint::LATEST;
use crate::cli::resume;
use crate::cli::show::output;
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

/// What a run starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Beginning,
    /// The checkpoint saved last, if there is one.
    Last,
    /// A checkpoint that is named.
    Named,
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
        let words = run.map_or_else(|| self.words.clone(), |run| self.words_after(run));
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

    /// The arguments with which a run goes on that has begun with these.
    fn words_after(&self, run: &RunNote) -> Vec<String> {
        let start = self.start();
        // By now the checkpoint saved last may be that of the failure.
        let first = run.first_checkpoint().filter(|_| start == Start::Last);
        let tag = run.new_checkpoint().or_else(|| first.map(str::to_owned));
        let mut words = resume::without_resume(self.words.iter().cloned());
        match tag {
            Some(tag) => words.push(format!("--resume={tag}")),
            // Whatever is in the directory is this run's.
            None if run.is_from_the_beginning() && start != Start::Named => {
                words.push("--overwrite".to_owned());
            }
            // What was there before is not this process's to remove.
            None => return self.words.clone(),
        }
        words
    }

    /// What this attempt starts from, by its arguments.
    fn start(&self) -> Start {
        let mut words = self.words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let named = match word {
                "--resume-if-exists" => None,
                "--resume" => words.next().filter(|next| !next.starts_with('-')),
                _ => match word.strip_prefix("--resume=") {
                    Some(named) => Some(named),
                    None => continue,
                },
            };
            return match named {
                None | Some(LATEST) => Start::Last,
                Some(_) => Start::Named,
            };
        }
        Start::Beginning
    }

    /// Says that this attempt begins, of `all` that are allowed.
    pub(super) fn announce(&self, all: u32) {
        let number = all - self.left;
        let ranks = match self.size {
            1 => String::new(),
            size => format!(", on {size} ranks"),
        };
        let mut words = self.words.iter().rev();
        let tag = words.find_map(|word| word.strip_prefix("--resume="));
        let what = match (self.start(), tag) {
            (Start::Beginning, _) => {
                format!("begins again, since it has no checkpoint of its own{ranks}")
            }
            (_, Some(tag)) => format!("goes on from its checkpoint `{tag}`{ranks}"),
            (_, None) => format!("starts from where it was resumed{ranks}"),
        };
        let warning = format!("restart {number} of {all}: the run {what}");
        output::diagnostics(&[Diagnostic::warning(warning)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{FORMAT, Store};
    use crate::exit;

    const KILLED: Ending = Ending {
        code: 137,
        killed: 2,
        is_by_hook: false,
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
    fn what_an_attempt_starts_from_is_in_its_arguments() {
        for (words, start) in [
            ("run.json --set a=1", Start::Beginning),
            ("run.json --overwrite", Start::Beginning),
            ("run.json --resume", Start::Last),
            ("run.json --resume --set a=1", Start::Last),
            ("run.json --resume latest", Start::Last),
            ("run.json --resume-if-exists", Start::Last),
            ("run.json --resume=epoch-2", Start::Named),
            ("run.json --resume epoch-2", Start::Named),
        ] {
            let words = words.split(' ').map(str::to_owned).collect();
            let attempt = Attempt {
                words,
                ..attempt(1)
            };
            assert_eq!(attempt.start(), start, "{:?}", attempt.words);
        }
    }

    #[test]
    fn what_was_there_before_the_run_is_never_removed() {
        let place = tempfile::tempdir().expect("a directory");
        let checkpoint = place.path().join("checkpoints/failed");
        let words_after = |word: &str| {
            let run = RunNote::of(place.path().to_owned());
            let attempt = Attempt {
                words: ["run.json", word].map(str::to_owned).into(),
                ..attempt(1)
            };
            attempt.words_after(&run)
        };
        assert_eq!(
            words_after("--resume-if-exists"),
            ["run.json", "--overwrite"]
        );
        assert_eq!(words_after("--overwrite"), ["run.json", "--overwrite"]);
        assert_eq!(
            words_after("--resume=/runs/a"),
            ["run.json", "--resume=/runs/a"]
        );
        // That of a failure of another run, which this one has resumed from.
        std::fs::create_dir_all(&checkpoint).expect("made");
        let index = format!(r#"{{"format": {FORMAT}, "host": "", "files": []}}"#);
        std::fs::write(checkpoint.join("index.json"), index).expect("written");
        assert_eq!(Store::of(place.path()).tags(), ["failed"]);
        for word in ["--resume-if-exists", "--resume", "--resume=failed"] {
            assert_eq!(words_after(word), ["run.json", word]);
        }
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
