//! Search for NaN and infinite elements in the host's tensors.

use sconce_plugin_api::ext::{Collection, Reduction};
use sconce_plugin_api::{Result, TaskView, Vectors};

/// Whether a value is NaN, or infinite where `infinite` counts that as bad too.
pub(crate) fn is_bad(value: f64, infinite: bool) -> bool {
    value.is_nan() || infinite && value.is_infinite()
}

/// The tensors that are searched, and what counts as bad.
pub(crate) struct Search {
    tensors: Vectors,
    reduction: Reduction,
}

impl Search {
    /// A search through these tensors, where NaN is bad, and with `infinite` infinite elements are, too.
    pub(crate) fn through(tensors: Vectors, infinite: bool) -> Search {
        let reduction = if infinite {
            Reduction::NotFinite
        } else {
            Reduction::NotANumber
        };
        Search { tensors, reduction }
    }

    /// A search through all tensors of a collection.
    pub(crate) fn through_all(collection: Collection, infinite: bool) -> Search {
        Search::through(Vectors::all(collection), infinite)
    }

    /// The place of the first tensor that has a bad element, among those that are searched.
    pub(crate) fn first(&mut self, task: &TaskView<'_>) -> Result<Option<usize>> {
        let counts = self.tensors.reduce(task, self.reduction)?;
        Ok(counts.iter().position(|count| *count > 0.0))
    }
}
