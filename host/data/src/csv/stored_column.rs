//! Serialised form of a column's encoding, and its checks: the file that has it is not trusted.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::OnUnknown;
use super::encoder::{ColumnEncoder, Encoding, MissingCategory};
use crate::exact::Exact;

/// A column's encoding.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum StoredColumn {
    Number {
        name: String,
        mean: Exact,
        deviation: Exact,
        standardised: bool,
        /// None: refused.
        missing: Option<Exact>,
        seen: [Exact; 2],
        rows: usize,
    },
    Category {
        name: String,
        categories: Vec<String>,
        counts: Vec<usize>,
        missing: MissingCategory,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unknown: Option<OnUnknown>,
    },
}

impl From<ColumnEncoder> for StoredColumn {
    fn from(ColumnEncoder { name, encoding }: ColumnEncoder) -> StoredColumn {
        match encoding {
            Encoding::Number {
                mean,
                deviation,
                is_standardised,
                missing,
                seen,
                rows,
            } => StoredColumn::Number {
                name,
                mean,
                deviation,
                standardised: is_standardised,
                missing,
                seen,
                rows,
            },
            Encoding::Category {
                categories,
                counts,
                missing,
                unknown,
            } => StoredColumn::Category {
                name,
                categories,
                counts,
                missing,
                unknown,
            },
        }
    }
}

impl TryFrom<StoredColumn> for ColumnEncoder {
    type Error = String;

    fn try_from(stored: StoredColumn) -> Result<ColumnEncoder, String> {
        match stored {
            StoredColumn::Number {
                name,
                mean,
                deviation,
                standardised,
                missing,
                seen,
                rows,
            } => {
                let numbers = [mean, deviation].into_iter().chain(missing).chain(seen);
                if !numbers.map(|number| number.0).all(f64::is_finite) {
                    return Err(format!(
                        "the column `{name}` has a number that is not finite"
                    ));
                }
                if deviation.0 <= 0.0 {
                    return Err(format!(
                        "the deviation of the column `{name}` must be above 0"
                    ));
                }
                let encoding = Encoding::Number {
                    mean,
                    deviation,
                    is_standardised: standardised,
                    missing,
                    seen,
                    rows,
                };
                Ok(ColumnEncoder { name, encoding })
            }
            StoredColumn::Category {
                name,
                categories,
                counts,
                missing,
                unknown,
            } => {
                if categories.len() != counts.len() {
                    return Err(format!(
                        "the column `{name}` has {} categories, but counts of {}",
                        categories.len(),
                        counts.len()
                    ));
                }
                let different: BTreeSet<&String> = categories.iter().collect();
                if different.len() < categories.len() {
                    return Err(format!("the column `{name}` has a category twice"));
                }
                if let MissingCategory::As(category) = &missing
                    && !different.contains(category)
                {
                    return Err(format!(
                        "a missing value of the column `{name}` is replaced by `{category}`, which is none of its categories"
                    ));
                }
                let encoding = Encoding::Category {
                    categories,
                    counts,
                    missing,
                    unknown,
                };
                Ok(ColumnEncoder { name, encoding })
            }
        }
    }
}
