//! Phases: what a pass over data is for.

use std::fmt;

/// What the task is currently doing.
///
/// New phases may be added: match with a wildcard arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
