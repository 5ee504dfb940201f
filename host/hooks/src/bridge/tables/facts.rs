//! `sconce.plan/1`, `sconce.resume/1`, `sconce.run/1` and `sconce.task/1`: what hooks are told of the run.

use sconce_plugin_api::abi::TextAbi;
use sconce_plugin_api::ext::{GroupAbi, Plan, Resume, ResumeTable, Run, Task};

use crate::bridge::BridgeState;

impl Plan for BridgeState<'_> {
    fn plan(&self) -> Option<&str> {
        self.known.plan.get().map(|plan| &**plan)
    }
}

impl Resume for BridgeState<'_> {
    fn flags(&self) -> u64 {
        if self.is_reinstating() {
            return ResumeTable::RESUMED | ResumeTable::KNOWN | ResumeTable::RELOADED;
        }
        match self.known.resumed.get() {
            None => 0,
            Some(known) if known.contains(&self.hook_name()) => {
                ResumeTable::RESUMED | ResumeTable::KNOWN
            }
            Some(_) => ResumeTable::RESUMED,
        }
    }
}

impl Run for BridgeState<'_> {
    fn elapsed_seconds(&self) -> f64 {
        self.clock.elapsed_seconds()
    }

    fn remaining_seconds(&self) -> f64 {
        self.clock.remaining_seconds().unwrap_or(-1.0)
    }
}

impl Task for BridgeState<'_> {
    fn facts(&self) -> Option<&str> {
        self.known.facts.get().map(|facts| &**facts)
    }

    fn group_count(&self) -> usize {
        self.optimizer.groups.borrow().iter().len()
    }

    fn group(&self, index: usize) -> Option<GroupAbi> {
        // Groups are set once, so their names never move.
        self.optimizer
            .groups
            .borrow()
            .at(index)
            .map(|group| GroupAbi {
                name: TextAbi::new(&group.name),
                learning_rate: group.learning_rate,
                weight_decay: group.weight_decay,
            })
    }
}
