//! `freeze`, `prune`, `grad-noise`, `weight-constraint`, `precise-batchnorm`.
