//! Phases: what a pass over data is for.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the task is currently doing.
///
/// New phases may be added: match with a wildcard arm. In configurations and files a phase is its
/// [name](Phase::name).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[repr(u32)]
pub enum Phase {
    /// Training: parameters are updated.
    Train = 0,
    /// Validation during training.
    Val = 1,
    /// The test after training.
    Test = 2,
    /// Prediction: targets are absent.
    Predict = 3,
}

impl Phase {
    /// All phases of this version of the API.
    pub const ALL: [Phase; 4] = [Phase::Train, Phase::Val, Phase::Test, Phase::Predict];

    /// Name used in manifests, file names and messages: `train`, `val`, `test`, `predict`.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Train => "train",
            Phase::Val => "val",
            Phase::Test => "test",
            Phase::Predict => "predict",
        }
    }

    /// The number that represents the phase across the boundary.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The phase with this number; `None` if this version of the API doesn't know it.
    pub const fn from_number(number: u32) -> Option<Phase> {
        match number {
            0 => Some(Phase::Train),
            1 => Some(Phase::Val),
            2 => Some(Phase::Test),
            3 => Some(Phase::Predict),
            _ => None,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_stored_as_its_name() {
        for phase in Phase::ALL {
            let text = serde_json::to_string(&phase).expect("a phase has a name");
            assert_eq!(text, format!("\"{}\"", phase.name()));
            assert_eq!(serde_json::from_str::<Phase>(&text).expect("a name"), phase);
        }
        let schema = schemars::schema_for!(Phase).to_value().to_string();
        assert!(Phase::ALL.iter().all(|phase| schema.contains(phase.name())));
    }
}
