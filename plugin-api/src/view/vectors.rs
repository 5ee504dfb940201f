//! Passes over all parameters, all gradients or the like, done by the host.

use std::ptr;

use super::TaskView;
use crate::Result;
use crate::abi::Status;
use crate::error::outcome;
use crate::ext::{Change, Collection, Combination, Reduction, VectorsAbi};

/// Tensors of a collection for the host's passes over them, kept by a hook from call to call.
///
/// ```
/// # use sconce_plugin_api::prelude::*;
/// use sconce_plugin_api::ext::{Change, Collection, Reduction};
/// use sconce_plugin_api::Vectors;
///
/// struct Clip {
///     gradients: Vectors,
/// }
///
/// # impl Clip {
/// fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
///     let squares = self.gradients.reduce(task, Reduction::Powers(2.0))?;
///     let norm = squares.iter().sum::<f64>().sqrt();
///     if norm > 1.0 {
///         self.gradients.change(task, Change::Scale(1.0 / norm))?;
///     }
///     Ok(())
/// }
/// # }
/// # let _ = Clip { gradients: Vectors::all(Collection::Gradients) };
/// ```
#[derive(Clone, Debug)]
pub struct Vectors {
    collection: Collection,
    axis: u32,
    /// `None`: all of the collection.
    names: Option<Vec<String>>,
    /// Where the names were found in the last call.
    indices: Vec<usize>,
    results: Vec<f64>,
}

impl Vectors {
    /// All tensors of a collection that there are when it is used.
    pub fn all(collection: Collection) -> Vectors {
        Vectors {
            collection,
            axis: VectorsAbi::WHOLE,
            names: None,
            indices: Vec::new(),
            results: Vec::new(),
        }
    }

    /// The tensors of a collection with these names, in this order.
    pub fn named(
        collection: Collection,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Vectors {
        Vectors {
            names: Some(names.into_iter().map(Into::into).collect()),
            ..Vectors::all(collection)
        }
    }

    /// Treats the slices along this dimension one by one, such as the rows of a matrix with 0. A tensor that has no such
    /// dimension is one slice.
    #[must_use]
    pub fn along(mut self, axis: usize) -> Vectors {
        // No tensor has as many dimensions.
        self.axis = u32::try_from(axis).unwrap_or(VectorsAbi::WHOLE - 1);
        self
    }

    /// Finds the tensors of this call.
    #[track_caller]
    fn find(&mut self, task: &TaskView<'_>) -> Result<VectorsAbi> {
        self.indices.clear();
        for name in self.names.iter().flatten() {
            self.indices.push(task.index_of(self.collection, name)?);
        }
        Ok(VectorsAbi {
            indices: if self.names.is_some() {
                self.indices.as_ptr()
            } else {
                ptr::null()
            },
            count: self.indices.len(),
            collection: self.collection as u32,
            axis: self.axis,
        })
    }
}

impl Vectors {
    /// Reduces each tensor, or each slice of each, to a number; results in order.
    ///
    /// # Errors
    ///
    /// If there is no tensor with one of the names.
    #[track_caller]
    pub fn reduce(&mut self, task: &TaskView<'_>, reduction: Reduction) -> Result<&[f64]> {
        let vectors = task.host.vectors()?;
        let found = self.find(task)?;
        let (kind, number) = reduction.numbers();
        let results = &mut self.results;
        loop {
            // SAFETY: the indices are borrowed for the call.
            let needed = unsafe { vectors.reduce(kind, number, &found, results) };
            let needed = outcome(needed)?;
            if let Some(found) = results.get(..needed) {
                // The borrow checker takes a returned slice for one of every turn of the loop.
                let length = found.len();
                return Ok(&self.results[..length]);
            }
            results.resize(needed, 0.0);
        }
    }

    /// Changes all tensors in place, or none if there is an error.
    ///
    /// Legal where each of them may be changed, such as gradients at `after_backward` and `before_update`.
    ///
    /// # Errors
    ///
    /// If they may not be changed at this point, are not of floats, are not as many as the numbers of the change.
    #[track_caller]
    pub fn change(&mut self, task: &mut TaskView<'_>, change: Change<'_>) -> Result<()> {
        let vectors = task.host.vectors()?;
        let found = self.find(task)?;
        outcome(change.send(|kind, numbers| {
            // SAFETY: the indices are borrowed for the call. The view is borrowed exclusively, so no other view of the tensors
            // exists.
            unsafe { vectors.change(kind, &found, numbers) }
        }))
    }

    /// Combines each tensor with that of `from` at the same place, or changes none if there is an error.
    ///
    /// # Errors
    ///
    /// If there are not as many in both, their shapes or types differ, these may not be changed at this point.
    #[track_caller]
    pub fn combine(
        &mut self,
        task: &mut TaskView<'_>,
        from: &mut Vectors,
        combination: Combination,
    ) -> Result<()> {
        let vectors = task.host.vectors()?;
        let (found, others) = (self.find(task)?, from.find(task)?);
        let (kind, weight) = combination.numbers();
        // SAFETY: as in `change`.
        outcome(unsafe { vectors.combine(kind, weight, &found, &others) })
    }
}

impl TaskView<'_> {
    /// Whether a collection has a tensor of this name; see [`Tensors::has`](super::Tensors::has).
    #[track_caller]
    pub(super) fn has_tensor(&self, collection: Collection, name: &str) -> Result<bool> {
        let vectors = self.host.vectors()?;
        let Ok(index) = self.index_of(collection, name) else {
            return Ok(false);
        };
        let found = VectorsAbi {
            indices: &raw const index,
            count: 1,
            collection: collection as u32,
            axis: VectorsAbi::WHOLE,
        };
        let (kind, number) = Reduction::Largest.numbers();
        // SAFETY: the index is borrowed for the call. Without room for results the host only counts them.
        match unsafe { vectors.reduce(kind, number, &found, &mut []) } {
            Err(refusal) if refusal.status == Status::NOT_FOUND => Ok(false),
            answer => Ok(outcome(answer)? > 0),
        }
    }
}
