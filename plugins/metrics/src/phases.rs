//! Phases in a configuration.

use sconce_plugin_api::prelude::*;

/// A phase of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PhaseName {
    /// Training.
    Train,
    /// Validations.
    Val,
    /// The test.
    Test,
}

impl PhaseName {
    pub(crate) const ALL: [PhaseName; 3] = [PhaseName::Train, PhaseName::Val, PhaseName::Test];

    fn phase(self) -> Phase {
        match self {
            PhaseName::Train => Phase::Train,
            PhaseName::Val => Phase::Val,
            PhaseName::Test => Phase::Test,
        }
    }
}

/// Returns whether `phase` is among `names`.
pub(crate) fn has(names: &[PhaseName], phase: Phase) -> bool {
    names.iter().any(|name| name.phase() == phase)
}

/// A value for each phase.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<T>", bound(deserialize = "T: Default + Deserialize<'de>"))]
pub(crate) struct ByPhase<T>([T; Phase::ALL.len()]);

impl<T> ByPhase<T> {
    /// Returns a phase's value; `None` for a phase that this version of the API does not know.
    pub(crate) fn of(&mut self, phase: Phase) -> Option<&mut T> {
        self.0.get_mut(phase.number() as usize)
    }

    /// Iterates over all values, in the order of the phases' numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

impl<T: Default> From<Vec<T>> for ByPhase<T> {
    /// A state may be of a version that knew other phases.
    fn from(saved: Vec<T>) -> Self {
        let mut saved = saved.into_iter();
        ByPhase(std::array::from_fn(|_| saved.next().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_phases() {
        for name in PhaseName::ALL {
            let text = format!("\"{}\"", name.phase());
            assert_eq!(
                serde_json::from_str::<PhaseName>(&text).expect("a phase"),
                name
            );
            assert!(has(&[name], name.phase()) && !has(&[name], Phase::Predict));
        }
    }
}
