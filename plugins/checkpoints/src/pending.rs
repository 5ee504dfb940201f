//! Checkpoints that the host has been asked for and has not told of yet.

use super::State;
use super::config::Config;
use super::ledger::Ledger;

/// A checkpoint that the host has been asked for.
pub(crate) struct Pending {
    /// The first is written, the others are copies of it.
    pub(crate) tags: Vec<String>,
    /// What is to be deleted once it is there.
    pub(crate) doomed: Vec<String>,
    /// What it means for the ledger, should an earlier one fail and these be taken anew.
    pub(crate) steps: Vec<Step>,
    /// The state to go back to where it fails.
    pub(crate) before: State,
}

/// What a checkpoint means for the ledger.
pub(crate) enum Step {
    /// It is one by epochs, iterations or minutes.
    Add {
        tag: String,
        number: u64,
        iteration: u64,
    },
    /// It is among the best of a metric.
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
    /// Takes the step; the tags that are wanted no more.
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
