//! Checkpoints requested from the host and not yet reported.

use sconce_plugin_api::ext::check_tag;
use sconce_plugin_api::prelude::*;

use super::State;
use super::config::Config;
use super::ledger::Ledger;

/// A checkpoint requested from the host.
///
/// It is part of the hook's state: the checkpoint itself contains the request for it as not reported yet. After a resume,
/// what has to follow then does.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Pending {
    /// The first is written; the others are copies of it.
    pub(crate) tags: Vec<String>,
    /// Tags to delete once it is saved.
    pub(crate) doomed: Vec<String>,
    /// Changes to the ledger, reapplied if an earlier checkpoint fails.
    pub(crate) steps: Vec<Step>,
    /// State to restore if it fails; not known after a resume.
    #[serde(skip)]
    pub(crate) before: Option<State>,
}

/// A change to the ledger by a checkpoint.
#[derive(Clone, Serialize, Deserialize)]
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
            before: Some(before),
        }
    }

    /// Rejects requests that no run makes: their tags become directories that are written and deleted.
    pub(crate) fn check(&self) -> Result<()> {
        let steps = self.steps.iter().map(|step| match step {
            Step::Add { tag, .. } | Step::Rank { tag, .. } => tag,
        });
        for tag in self.tags.iter().chain(&self.doomed).chain(steps) {
            check_tag(tag).map_err(|reason| HookError::new(format_args!("the state: {reason}")))?;
        }
        Ok(())
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
