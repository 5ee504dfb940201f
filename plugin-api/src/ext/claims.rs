//! `sconce.claims/1`: claims on resources that only one hook of a run can have.

use super::extension;
use crate::abi::Refusal;

/// Claims what only one hook of a run can have; at a hook's creation.
#[extension("sconce.claims/1")]
pub trait Claims {
    /// Claims a resource, named by a text, for the hook that is being created.
    ///
    /// If another hook of the run has claimed it, the message names both hooks.
    #[changes]
    fn claim(&self, what: &str) -> Result<(), Refusal>;
}
