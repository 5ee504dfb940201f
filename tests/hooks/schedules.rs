//! `lr-range-test`, `accumulation-schedule`, `loss-scale`, and momentum in `lr-schedule`.
