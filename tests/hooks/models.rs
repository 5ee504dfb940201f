//! `model-complexity`, `activation-stats`.
