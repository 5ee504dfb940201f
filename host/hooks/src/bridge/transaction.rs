//! Calls that can be undone: if a hook's process ends in a call, the call has not happened.
//!
//! Effects take place at once, so that what a hook may do and reads back is decided by the same code as for hooks in this
//! process. Nothing of the run looks at them before the call is over: the loop waits for it.

use std::ffi::c_void;

use super::journal::Change;
use super::shared::BridgeState;
use super::state_of;

impl BridgeState<'_> {
    /// Undoes the call, the last change first; returns whether other ranks have seen something of it.
    fn roll_back(&self) -> bool {
        let mut changes = self.journal.close();
        while let Some(change) = changes.pop() {
            self.undo(change);
        }
        self.journal.has_gathered()
    }

    fn undo(&self, change: Change) {
        match change {
            Change::Metric {
                phase,
                name,
                earlier,
            } => {
                let mut metrics = self.metrics.borrow_mut();
                metrics.take_back(phase, &name, earlier);
            }
            Change::Value {
                is_of_checkpoint: true,
                replaced,
            } => self.checkpoint_entries.put_back(replaced),
            Change::Value { replaced, .. } => self.values.put_back(replaced),
            Change::Groups(groups) => self.set_groups(&groups),
            Change::Accumulation(batches) => self.optimizer.accumulation.set(batches),
            Change::Requests(requests) => self.requests.put_back(*requests),
            Change::Claim => self.claims.take_back(),
            Change::GivenLoss => self.model.given_losses.take_back(),
        }
    }
}

/// Begins a call that may be undone.
///
/// # Safety
///
/// `context` must be null or the argument that the host gave for this call.
pub(crate) unsafe fn begin_transaction(context: *const c_void) {
    // SAFETY: guaranteed by the caller.
    if let Some(shared) = unsafe { state_of(context) } {
        shared.journal.open();
    }
}

/// Ends a call that has happened.
///
/// # Safety
///
/// As for [`begin_transaction`].
pub(crate) unsafe fn commit(context: *const c_void) {
    // SAFETY: guaranteed by the caller.
    if let Some(shared) = unsafe { state_of(context) } {
        shared.journal.forget();
    }
}

/// Undoes a call, but for what other ranks have seen of it; returns whether they have.
///
/// # Safety
///
/// As for [`begin_transaction`].
pub(crate) unsafe fn roll_back(context: *const c_void) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { state_of(context) }.is_some_and(BridgeState::roll_back)
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Tensor};
    use sconce_plugin_api::ext::Asked;
    use sconce_plugin_api::{Keep, Phase};

    use super::super::values::ValueContent;
    use super::*;
    use crate::log::{Level, Log};

    struct Silent;

    impl Log for Silent {
        fn log(&self, _level: Level, _source: &str, _message: &str) {}
    }

    fn json(text: &str) -> ValueContent {
        ValueContent::Json(text.into())
    }

    /// Everything that a call can change, as text.
    fn seen(shared: &BridgeState<'_>) -> String {
        let metrics = shared.metrics.borrow();
        let metrics: Vec<_> = metrics.of(Phase::Train).iter().collect();
        let values = [&shared.values, &shared.checkpoint_entries].map(|values| {
            let keeps = [Keep::Batch, Keep::Run, Keep::Checkpoint];
            let entries = keeps.map(|keep| format!("{:?}", values.of_kind(keep)));
            let places = ["a", "b", "c", "d", "e"].map(|name| values.tensor_index(name));
            (values.len(), entries, places)
        });
        format!(
            "{metrics:?} {values:?} {:?} {} {:?} {:?} {:?} {}",
            shared.optimizer.groups.borrow(),
            shared.optimizer.learning_rate.get(),
            shared.optimizer.accumulation.get(),
            shared.requests,
            shared.claims,
            shared.model.given_losses.in_words()
        )
    }

    fn change_everything(shared: &BridgeState<'_>, round: u32) {
        let number = f64::from(round);
        shared.publish_metric("old", number).expect("published");
        shared
            .publish_metric(&format!("new {round}"), number)
            .expect("published");
        let tensor = Tensor::full(round, 2, &Device::Cpu).expect("a tensor");
        for (name, keep) in [("a", Keep::Batch), ("d", Keep::Run), ("b", Keep::Run)] {
            shared.set_value(&shared.values, name, keep, json("7"));
            shared.set_value(
                &shared.values,
                name,
                keep,
                ValueContent::Tensor(tensor.clone()),
            );
        }
        shared.remove_value("c");
        shared.set_value(&shared.values, "e", Keep::Run, json("1"));
        shared.set_value(&shared.checkpoint_entries, "a", Keep::Checkpoint, json("2"));
        shared.note_groups();
        shared
            .optimizer
            .groups
            .borrow_mut()
            .set_learning_rate(number);
        shared.optimizer.learning_rate.set(number);
        shared.set_accumulation(u64::from(round));
        shared.journal.note_requests(&shared.requests);
        shared.requests.ask_skip_batch();
        shared.requests.scale_loss(0.5);
        shared.requests.ask(Asked::SkipUpdate, "mine".to_owned());
        shared.claim(&format!("place {round}")).expect("free");
        shared.model.given_losses.admits().expect("none is given");
        (shared.model.given_losses).give(number, Some(tensor), "mine".to_owned());
        shared.journal.note(|| Change::GivenLoss);
    }

    #[test]
    fn a_call_that_is_rolled_back_leaves_everything_as_it_was_and_one_that_is_committed_nothing() {
        let shared = BridgeState::new(&Silent);
        shared.register("mine");
        shared.model.given_losses.expect();
        shared.publish_metric("old", 1.0).expect("published");
        let tensor = Tensor::zeros(2, DType::F32, &Device::Cpu).expect("a tensor");
        shared.values.set("gap", Keep::Run, None, json("0"));
        shared
            .values
            .set("b", Keep::Batch, None, ValueContent::Tensor(tensor));
        shared.values.set("c", Keep::Run, None, json("3"));
        shared.values.remove("gap");
        let before = seen(&shared);
        for round in 2..4 {
            shared.journal.open();
            change_everything(&shared, round);
            assert_ne!(seen(&shared), before);
            assert!(!shared.roll_back());
            assert_eq!(seen(&shared), before);
        }
        shared.journal.open();
        change_everything(&shared, 4);
        let after = seen(&shared);
        shared.journal.forget();
        // Without a transaction, nothing is noted.
        shared.publish_metric("old", 4.0).expect("published");
        assert!(shared.journal.close().is_empty());
        shared.journal.open();
        shared.journal.note_gathering();
        assert!(shared.roll_back(), "others have seen it");
        assert_eq!(seen(&shared), after);
    }
}
