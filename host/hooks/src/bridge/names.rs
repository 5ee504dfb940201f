//! Names of the loop's tensors, and their indices.

use std::cell::Cell;

use sconce_base::nearest::nearest;

/// Names of the tensors that the loop itself exposes for every batch.
pub(super) const FIXED: [&str; 3] = ["inputs", "targets", "outputs"];

/// Names of a module's tensors, in their order.
pub(super) const MODULE: [&str; 4] = ["input", "output", "input_gradient", "output_gradient"];

/// Name of the tensor with the samples' indices in their data set, and its index in the collection:
/// after all others and not counted, since few hooks read it.
pub(super) const INDICES: &str = "indices";
pub(super) const INDICES_AT: usize = usize::MAX;

/// Where to look first for a name: hooks that pass over all tensors ask for their names in order.
#[derive(Debug, Default)]
pub(super) struct NextName(Cell<usize>);

impl NextName {
    /// As [`index_of`]; `at` is the name at an index.
    pub(super) fn index_of<'a, I>(
        &self,
        what: &str,
        name: &str,
        at: impl Fn(usize) -> Option<&'a str>,
        names: impl Fn() -> I,
    ) -> Result<usize, String>
    where
        I: Iterator<Item = &'a str>,
    {
        let next = self.expected();
        let index = if at(next) == Some(name) {
            next
        } else {
            index_of(what, name, names)?
        };
        Ok(self.found(index))
    }

    /// Index at which the next name is, if names are asked for in order.
    pub(super) fn expected(&self) -> usize {
        self.0.get()
    }

    /// A name was found at this index, which is returned.
    pub(super) fn found(&self, index: usize) -> usize {
        self.0.set(index.wrapping_add(1));
        index
    }
}

/// Index of a name, or a message that suggests the nearest one.
pub(super) fn index_of<'a, I>(
    what: &str,
    name: &str,
    names: impl Fn() -> I,
) -> Result<usize, String>
where
    I: Iterator<Item = &'a str>,
{
    names().position(|known| known == name).ok_or_else(|| {
        let hint = nearest(name, names()).map(|near| format!("; did you mean `{near}`?"));
        let hint = hint.unwrap_or_default();
        format!("no {what} is called `{name}`{hint}")
    })
}
