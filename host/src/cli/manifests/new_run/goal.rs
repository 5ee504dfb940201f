//! What a model learns, and by what its checkpoints are compared.

use serde_json::{Value, json};

/// Kind of the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Classes {
        /// Whether accuracy says how well the rare classes are told apart, too.
        is_balanced: bool,
    },
    Numbers,
    Tokens,
}

impl Goal {
    /// Classes of which the rarest and the most frequent have this many samples.
    pub(super) fn of_classes([fewest, most]: [usize; 2]) -> Goal {
        const BALANCED: usize = 4;
        Goal::Classes {
            is_balanced: most < BALANCED * fewest,
        }
    }

    pub(super) fn is_classes(self) -> bool {
        matches!(self, Goal::Classes { .. })
    }

    /// Metrics for the manifest; none for the default.
    pub(super) fn metrics(self) -> Option<Value> {
        match self {
            Goal::Classes { is_balanced: true } => Some(json!(["accuracy"])),
            Goal::Classes { is_balanced: false } => Some(json!(["accuracy", "f1"])),
            Goal::Numbers => Some(json!(["mae", "rmse", "r2"])),
            Goal::Tokens => None,
        }
    }

    /// Metric by which the best checkpoint is chosen.
    pub(super) fn best(self) -> &'static str {
        match self {
            Goal::Classes { is_balanced: true } => "accuracy",
            Goal::Classes { is_balanced: false } => "f1",
            Goal::Numbers => "rmse",
            Goal::Tokens => "loss",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Goal::Classes { .. } => "classification",
            Goal::Numbers => "regression",
            Goal::Tokens => "prediction of the next token",
        }
    }
}
