//! Identification of a run's hooks.

/// A hook of a run: its position in the order of creation, which is the manifest's. Hooks of earlier segments of the
/// run that are no longer configured come after those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookId(usize);

impl HookId {
    /// The hook at this position.
    #[inline]
    pub fn at(position: usize) -> HookId {
        HookId(position)
    }

    /// Its position.
    #[inline]
    pub fn position(self) -> usize {
        self.0
    }
}
