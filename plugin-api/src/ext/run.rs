//! `sconce.run/1`: properties of the run that are computed on demand.

use super::extension;

/// Properties of the run that are computed on demand.
#[extension("sconce.run/1")]
pub trait Run {
    /// Seconds since the run began, on a monotonic clock, including the time before a resume.
    #[ahead]
    fn elapsed_seconds(&self) -> f64;

    /// Estimated seconds until the end of training; negative if there is no basis for an estimate.
    #[ahead]
    #[or(-1.0)]
    fn remaining_seconds(&self) -> f64;
}
