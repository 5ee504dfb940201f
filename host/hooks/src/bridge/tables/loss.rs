//! `sconce.loss/1`.

use std::cell::Cell;

use sconce_plugin_api::ext::Loss;

use crate::bridge::BridgeState;

thread_local! {
    /// Whether the table was queried since the creation of a hook began.
    static IS_QUERIED: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a plugin has queried the table, and by that promises to read the loss through it.
pub(super) fn note_query() {
    IS_QUERIED.set(true);
}

/// Watches, during the creation of a hook, whether the hook queries the table.
pub struct LossQueries(());

impl LossQueries {
    /// Begins to watch.
    pub(crate) fn watch() -> LossQueries {
        IS_QUERIED.set(false);
        LossQueries(())
    }

    /// Whether the table was queried.
    #[expect(
        clippy::unused_self,
        reason = "what is asked for begins with this watch"
    )]
    pub(crate) fn were_made(self) -> bool {
        IS_QUERIED.get()
    }
}

impl Loss for BridgeState<'_> {
    fn current(&self) -> Option<f64> {
        self.device.deferred.settle(&self.metrics);
        self.device.deferred.last(self.phase())
    }

    fn recent(&self, losses: &mut [f64]) -> usize {
        if losses.is_empty() {
            return 0;
        }
        self.device.deferred.settle(&self.metrics);
        let found = self.device.deferred.recent(losses.len());
        for (place, loss) in losses.iter_mut().zip(&found) {
            *place = *loss;
        }
        found.len()
    }
}
