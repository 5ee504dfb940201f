//! What may be meant by a category that the training rows don't have.

use sconce_base::nearest::nearest;

use crate::numbers::csv::UnknownCategory;
use crate::numbers::csv::table::scan::number;

/// Number of known categories that are listed.
const LISTED: usize = 20;

impl UnknownCategory {
    /// `counts` are the training rows of each of the `categories`.
    pub(super) fn new(
        column: &str,
        found: &str,
        categories: &[String],
        counts: &[usize],
    ) -> UnknownCategory {
        let same_number = number(found).and_then(|found| {
            let mut known = categories.iter();
            known.find(|known| number(known).is_some_and(|known| known.total_cmp(&found).is_eq()))
        });
        let near = nearest(found, categories.iter().map(String::as_str));
        let mut frequent: Vec<(&usize, &String)> = counts.iter().zip(categories).collect();
        // The sort is stable: equally frequent ones stay in their order.
        frequent.sort_by_key(|(count, _)| std::cmp::Reverse(**count));
        let frequent = frequent.into_iter().take(LISTED);
        UnknownCategory {
            column: column.to_owned(),
            found: found.to_owned(),
            same_number: same_number.cloned(),
            near: near.map(str::to_owned),
            frequent: frequent.map(|(_, category)| category.clone()).collect(),
            known: categories.len(),
        }
    }
}
