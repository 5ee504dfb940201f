//! Learning without labels: losses of a network's outputs for several views of the same samples.

#![forbid(unsafe_code)]

pub mod losses;
