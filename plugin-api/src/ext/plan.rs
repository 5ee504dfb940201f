//! `sconce.plan/1`: the plan of the run, as far as it is known before the run begins.

use super::extension;

/// The plan of the run, as far as it is known before the run begins.
#[extension("sconce.plan/1")]
pub trait Plan {
    /// The plan as a JSON object ([`Plan`](crate::Plan)), valid until the end of the run; from a hook's creation on. Its
    /// members: `epochs`, `accumulate`, `phases` (objects with `phase`, `samples`, `batches`, `passes`), `parameters`
    /// (`name`, `is_buffer`), `modules` (`name`, `kind`), `groups`, `classes`, `sample_shape` and `metrics`. Refuse
    /// an unknown name at the hook's creation: `sconce check` then finds it.
    fn plan(&self) -> Option<&str>;
}
