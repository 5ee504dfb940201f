//! Names of the loop's tensors, and their indices.

use sconce_base::nearest::nearest;

/// Names of the tensors that the loop itself exposes for every batch.
pub(super) const FIXED: [&str; 3] = ["inputs", "targets", "outputs"];

/// Name of the tensor with the samples' indices in their data set, and its index in the collection:
/// after all others and not counted, since few hooks read it.
pub(super) const INDICES: &str = "indices";
pub(super) const INDICES_AT: usize = usize::MAX;

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
