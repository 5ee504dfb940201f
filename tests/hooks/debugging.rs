//! `anomaly`, `visualize`, `gradient-flow`, `overfit-check`.
