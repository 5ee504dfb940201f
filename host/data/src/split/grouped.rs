//! Parts that keep the samples of a group together, such as those of one patient.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Fold, Parts, Taken};
use crate::DataError;
use sconce_ops::random;

/// Like [`split`](super::split), but the samples of a group are all in one part.
///
/// A count is reached as closely as whole groups in random order allow, by one at least. Folds are made as by
/// scikit-learn's `GroupKFold` or, with `classes`, much as by its `StratifiedGroupKFold`: group after group, the largest
/// first, is added where the folds' counts of each class stay the most alike.
pub(crate) fn grouped(
    seed: u64,
    groups: &[u32],
    classes: Option<&[u32]>,
    (val, test): (Taken, Taken),
) -> Result<Parts, DataError> {
    let total = groups.len();
    let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (sample, &group) in groups.iter().enumerate() {
        members.entry(group).or_default().push(sample as u32);
    }
    let count = members.len();
    let members: Vec<Vec<u32>> = members.into_values().collect();
    let order = random::stream(seed, "split", 0, 0).permutation(count);
    let mut left: Vec<&Vec<u32>> = order
        .iter()
        .filter_map(|&group| members.get(group as usize))
        .collect();
    let mut parts = Parts::default();
    if let Taken::Count(wanted) = test {
        parts.test = take(&mut left, wanted);
    }
    match val {
        Taken::Count(wanted) => parts.val = take(&mut left, wanted),
        Taken::Fold(fold) => {
            if left.len() < fold.folds {
                return Err(DataError::FewGroups {
                    groups: left.len(),
                    folds: fold.folds,
                });
            }
            parts.val = take_fold(&mut left, classes, fold);
        }
    }
    parts.train = left.into_iter().flatten().copied().collect();
    if parts.train.is_empty() {
        return Err(DataError::NothingLeft {
            total,
            val: parts.val.len(),
            test: parts.test.len(),
        });
    }
    for part in [&mut parts.train, &mut parts.val, &mut parts.test] {
        part.sort_unstable();
    }
    parts.note(seed, val, (classes.is_some(), true));
    Ok(parts)
}

/// Takes the first groups, one at least, whose samples are together the closest to the number wanted.
fn take(left: &mut Vec<&Vec<u32>>, wanted: usize) -> Vec<u32> {
    let mut taken = Vec::new();
    let mut groups = 0;
    for group in left.iter() {
        let (without, with) = (taken.len(), taken.len() + group.len());
        if wanted == 0 || (groups > 0 && with.abs_diff(wanted) >= without.abs_diff(wanted)) {
            break;
        }
        taken.extend_from_slice(group);
        groups += 1;
    }
    left.drain(..groups);
    taken
}

/// Takes the groups of one of equal parts.
fn take_fold(
    left: &mut Vec<&Vec<u32>>,
    classes: Option<&[u32]>,
    Fold { fold, folds }: Fold,
) -> Vec<u32> {
    let class = |sample: &u32| classes.and_then(|classes| classes.get(*sample as usize));
    let counts = |group: &[u32]| {
        let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
        for sample in group {
            *counts
                .entry(class(sample).copied().unwrap_or(0))
                .or_default() += 1.0;
        }
        counts
    };
    let all: Vec<u32> = left.iter().copied().flatten().copied().collect();
    let totals = counts(&all);
    // The sort is stable: groups of equal size stay in random order.
    left.sort_by_key(|group| Reverse(group.len()));
    let mut of_folds = vec![(BTreeMap::<u32, f64>::new(), 0_usize); folds];
    let (mut taken, mut others) = (Vec::new(), Vec::new());
    for &group in left.iter() {
        let own = counts(group);
        // Of the sum over the folds of the squared shares of each class, what the group would add besides its own square.
        let cost = |counts: &BTreeMap<u32, f64>| -> f64 {
            let terms = own.iter().map(|(class, count)| {
                let total = totals.get(class).copied().unwrap_or(1.0);
                counts.get(class).copied().unwrap_or(0.0) * count / (total * total)
            });
            terms.sum()
        };
        let place = (of_folds.iter().enumerate())
            .min_by(|(_, (one, one_size)), (_, (other, other_size))| {
                let by_cost = cost(one).total_cmp(&cost(other));
                by_cost.then(one_size.cmp(other_size))
            })
            .map_or(0, |(place, _)| place);
        if let Some((counts, size)) = of_folds.get_mut(place) {
            for (class, count) in own {
                *counts.entry(class).or_default() += count;
            }
            *size += group.len();
        }
        if place + 1 == fold {
            taken.extend_from_slice(group);
        } else {
            others.push(group);
        }
    }
    *left = others;
    taken
}
