//! Parts of the training files for validation and test.

use super::{Error, Split};
use crate::random;

/// Which images of the training files go where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) train: Vec<u32>,
    pub(super) val: Vec<u32>,
    pub(super) test: Vec<u32>,
}

/// Where the data of a phase comes from, checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part<'a> {
    /// So many samples of the training files.
    Count(usize),
    /// Files of its own.
    Files(&'a std::path::Path, &'a std::path::Path),
    /// There is none.
    Nothing,
}

/// What a split says, for training files of `total` samples.
pub(super) fn part<'a>(
    split: Option<&'a Split>,
    phase: &'static str,
    total: usize,
) -> Result<Part<'a>, Error> {
    let Some(split) = split else {
        return Ok(Part::Nothing);
    };
    match (split.count, split.fraction, &split.images, &split.labels) {
        (Some(count), None, None, None) => {
            if count == 0 {
                return Err(Error::SplitRange {
                    phase,
                    key: "count",
                    range: "at least 1",
                    found: 0.0,
                });
            }
            Ok(Part::Count(count))
        }
        (None, Some(fraction), None, None) => {
            let inside = fraction > 0.0 && fraction < 1.0;
            if !inside {
                return Err(Error::SplitRange {
                    phase,
                    key: "fraction",
                    range: "above 0 and below 1",
                    found: fraction,
                });
            }
            Ok(Part::Count(
                ((total as f64 * fraction).round() as usize).max(1),
            ))
        }
        (None, None, Some(images), Some(labels)) => Ok(Part::Files(images, labels)),
        _ => Err(Error::SplitForm { phase }),
    }
}

/// Takes `val` and `test` samples out of `total` at random, by the seed.
pub(super) fn split(seed: u64, total: usize, val: usize, test: usize) -> Result<Parts, Error> {
    let taken = val.saturating_add(test);
    if taken >= total {
        return Err(Error::NothingLeft { total, val, test });
    }
    let order = if taken == 0 {
        (0..total as u32).collect()
    } else {
        random::stream(seed, "split", 0, 0).permutation(total)
    };
    let (for_val, rest) = order.split_at(val);
    let (for_test, for_train) = rest.split_at(test);
    let sorted = |part: &[u32]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part
    };
    Ok(Parts {
        train: sorted(for_train),
        val: sorted(for_val),
        test: sorted(for_test),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_sizes_and_share_nothing() {
        let parts = split(1, 100, 20, 10).expect("parts");
        assert_eq!(
            (parts.train.len(), parts.val.len(), parts.test.len()),
            (70, 20, 10)
        );
        let mut all = [parts.train.clone(), parts.val.clone(), parts.test.clone()].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100);
        assert_eq!(parts, split(1, 100, 20, 10).expect("parts"));
        assert_ne!(parts.val, split(2, 100, 20, 10).expect("parts").val);
        let error = split(1, 100, 60, 40).expect_err("nothing left").to_string();
        assert!(error.contains("nothing is left to train on"), "{error}");
        assert!(split(1, 100, usize::MAX, 1).is_err());
    }

    #[test]
    fn a_split_says_one_thing() {
        let count = |count| Split {
            count: Some(count),
            ..Split::default()
        };
        let fraction = |fraction| Split {
            fraction: Some(fraction),
            ..Split::default()
        };
        assert_eq!(part(None, "val", 10).expect("none"), Part::Nothing);
        assert_eq!(
            part(Some(&count(3)), "val", 10).expect("count"),
            Part::Count(3)
        );
        assert_eq!(
            part(Some(&fraction(0.25)), "val", 10).expect("fraction"),
            Part::Count(3)
        );
        let mut both = count(3);
        both.fraction = Some(0.5);
        let half = Split {
            images: Some("images".into()),
            ..Split::default()
        };
        for (split, words) in [
            (both, "`data.val` must have exactly one of"),
            (half, "`data.val` must have exactly one of"),
            (Split::default(), "`data.val` must have exactly one of"),
            (count(0), "`data.val.count` must be at least 1"),
            (
                fraction(1.0),
                "`data.val.fraction` must be above 0 and below 1",
            ),
            (fraction(f64::NAN), "`data.val.fraction`"),
        ] {
            let error = part(Some(&split), "val", 10).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
