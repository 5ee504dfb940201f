//! Checkpoints requested from the host and not yet reported.

use super::State;
use super::config::Config;
use super::ledger::Ledger;

/// A checkpoint requested from the host.
pub(crate) struct Pending {
    /// The first is written; the others are copies of it.
    pub(crate) tags: Vec<String>,
    /// Tags to delete once it is saved.
    pub(crate) doomed: Vec<String>,
    /// Changes to the ledger, reapplied if an earlier checkpoint fails.
    pub(crate) steps: Vec<Step>,
    /// State to restore if it fails.
    pub(crate) before: State,
}

/// A change to the ledger by a checkpoint.
pub(crate) enum Step {
    /// Saved by epochs, iterations or minutes.
    Add {
        tag: String,
        number: u64,
        iteration: u64,
    },
    /// Among the best of a metric.
    Rank {
        metric: usize,
        tag: String,
        value: f64,
    },
}

impl Pending {
    pub(crate) fn new(before: State) -> Pending {
        Pending {
            tags: Vec::new(),
            doomed: Vec::new(),
            steps: Vec::new(),
            before,
        }
    }
}

impl Step {
    /// Applies the change; returns the tags no longer wanted.
    pub(crate) fn apply(&self, ledger: &mut Ledger, config: &Config) -> Vec<String> {
        match self {
            Step::Add {
                tag,
                number,
                iteration,
            } => {
                let doomed = ledger.add(tag, *number, config.keep_last, config.keep_every);
                ledger.saved_at(*iteration);
                doomed
            }
            Step::Rank { metric, tag, value } => match config.best.get(*metric) {
                Some(best) => ledger.rank(*metric, tag, *value, best.rule(), best.keep),
                None => Vec::new(),
            },
        }
    }
}
