//! A category that the training rows don't have, with what may be meant.

use std::fmt;

use super::printable::printable;

/// A category that the training rows don't have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCategory {
    /// Name of the column.
    pub column: String,
    /// The category.
    pub found: String,
    /// Known category of the same number, such as `1` for `1.0` or `01`.
    pub same_number: Option<String>,
    /// Known category of a similar text.
    pub near: Option<String>,
    /// Most frequent categories, in order.
    pub frequent: Vec<String>,
    /// Number of known categories.
    pub known: usize,
}

impl fmt::Display for UnknownCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (column, found) = (printable(&self.column), printable(&self.found));
        write!(
            f,
            "the column `{column}` has the category `{found}`, which the training rows don't have"
        )?;
        match (&self.same_number, &self.near) {
            (Some(same), _) => {
                let same = printable(same);
                write!(f, "; they have `{same}`: categories are compared as texts")?;
            }
            (None, Some(near)) => write!(f, "; did you mean `{}`?", printable(near))?,
            (None, None) => {}
        }
        let frequent = self.frequent.iter();
        let frequent: Vec<String> = frequent
            .map(|category| format!("`{}`", printable(category)))
            .collect();
        let most = if self.known > frequent.len() {
            format!("the most frequent of {} categories", self.known)
        } else {
            "known categories".to_owned()
        };
        write!(f, "; {most}: {}", frequent.join(", "))
    }
}
