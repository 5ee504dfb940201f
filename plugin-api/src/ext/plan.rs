//! `sconce.plan/1`: the plan of the run, as far as it is known before the run begins.

use super::extension;

/// The plan of the run, as far as it is known before the run begins.
#[extension("sconce.plan/1")]
pub trait Plan {
    /// The plan as a JSON object ([`Plan`](crate::Plan)), valid until the end of the run; from a hook's creation on.
    fn plan(&self) -> Option<&str>;
}
