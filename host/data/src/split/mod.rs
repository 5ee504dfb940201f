//! Selection of training samples for validation and test: a `portion` of them, at random, stratified or `grouped`.

mod grouped;
pub(super) mod portion;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

pub(super) use grouped::grouped;

use super::DataError;
use super::files::data_files::{
    ContentHash, HashOf, PerPart, SplitRecord, is_recording, note_split,
};
use portion::{Amount, HeldOut, Portion, Split};
use sconce_ops::random;

/// Indices of the training data for each phase, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) train: Vec<u32>,
    pub(super) val: Vec<u32>,
    pub(super) test: Vec<u32>,
}

impl Parts {
    /// Notes how the samples were drawn, by which validation, and which they are; nothing if none were.
    fn note(&self, seed: u64, val: Taken, (stratified, grouped): (bool, bool)) {
        if !is_recording() || (self.val.is_empty() && self.test.is_empty()) {
            return;
        }
        let hash = |samples: &[u32]| {
            let bytes: Vec<u8> = samples.iter().flat_map(|i| i.to_le_bytes()).collect();
            (!samples.is_empty()).then(|| ContentHash::of(&bytes))
        };
        note_split(SplitRecord {
            seed: Some(seed),
            fold: match val {
                Taken::Fold(Fold { fold, folds }) => Some([fold as u64, folds as u64]),
                Taken::Count(_) => None,
            },
            hash_of: Some(HashOf::Positions),
            hash: PerPart {
                train: hash(&self.train),
                val: hash(&self.val),
                test: hash(&self.test),
            },
            stratified,
            grouped,
            rows: PerPart::default(),
        });
    }
}

/// One of `folds` equal parts of the training data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    /// Its number, from 1.
    fold: usize,
    folds: usize,
}

/// Samples that a phase takes from the training data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Count(usize),
    Fold(Fold),
}

impl Taken {
    /// Returns their number in data of `total` samples.
    fn count(self, total: usize) -> usize {
        match self {
            Taken::Count(count) => count,
            Taken::Fold(Fold { folds, .. }) => total.div_ceil(folds),
        }
    }
}

impl Amount {
    /// Returns the fold, if both of its numbers are there and in range.
    fn fold(self, phase: &'static str) -> Result<Option<Fold>, DataError> {
        let (fold, folds) = match (self.fold, self.folds) {
            (None, None) => return Ok(None),
            (Some(fold), Some(folds)) if phase == "val" => (fold, folds),
            _ => return Err(DataError::FoldForm { phase }),
        };
        let outside = |key, range, found: usize| DataError::SplitRange {
            phase,
            key,
            range,
            found: found as f64,
        };
        if folds < 2 {
            return Err(outside("folds", "at least 2", folds));
        }
        if !(1..=folds).contains(&fold) {
            return Err(outside("fold", "from 1 to `folds`", fold));
        }
        Ok(Some(Fold { fold, folds }))
    }
}

/// Source of a phase's data, after checking; `F` denotes separate files.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part<F> {
    /// Number of samples of the training data.
    Count(usize),
    /// One of equal parts of the training data.
    Fold(Fold),
    /// Separate files.
    Own(F),
    /// No data for this phase.
    Nothing,
}

impl<F> Part<F> {
    /// Returns the samples to take from the training data.
    pub(super) fn taken(&self) -> Taken {
        match self {
            Part::Count(count) => Taken::Count(*count),
            Part::Fold(fold) => Taken::Fold(*fold),
            Part::Own(_) | Part::Nothing => Taken::Count(0),
        }
    }

    /// Replaces separate files by their contents.
    pub(super) fn try_map<T>(
        self,
        read: impl FnOnce(F) -> Result<T, DataError>,
    ) -> Result<Part<T>, DataError> {
        Ok(match self {
            Part::Count(count) => Part::Count(count),
            Part::Fold(fold) => Part::Fold(fold),
            Part::Own(files) => Part::Own(read(files)?),
            Part::Nothing => Part::Nothing,
        })
    }
}

impl<P> HeldOut<P> {
    /// Returns the seed of the parts, in a run of this seed.
    pub(super) fn seed(&self, seed: u64) -> u64 {
        self.split_seed.unwrap_or(seed)
    }

    /// Selects the samples of these classes that the phases take, in a run of this seed.
    pub(super) fn of_classes(
        &self,
        seed: u64,
        classes: &[u32],
        (val, test): (Taken, Taken),
    ) -> Result<Parts, DataError> {
        if self.stratified {
            stratified(self.seed(seed), classes, val, test)
        } else {
            split(self.seed(seed), classes.len(), val, test)
        }
    }
}

impl HeldOut {
    /// Returns the sources of validation and test data, for training data of `total` samples.
    pub(super) fn sources(&self, total: usize) -> Result<[Part<&Path>; 2], DataError> {
        Ok([
            portion(self.val.as_ref(), "val", total)?,
            portion(self.test.as_ref(), "test", total)?,
        ])
    }
}

/// Returns the source given by a two-file split, for training data of `total` samples.
pub(super) fn part<'a>(
    split: Option<&'a Split>,
    phase: &'static str,
    total: usize,
) -> Result<Part<(&'a Path, &'a Path)>, DataError> {
    let Some(split) = split else {
        return Ok(Part::Nothing);
    };
    let own = match (&split.images, &split.labels) {
        (None, None) => OwnFiles::Unsaid,
        (Some(images), Some(labels)) => OwnFiles::Said((images.as_path(), labels.as_path())),
        _ => OwnFiles::Half,
    };
    let keys = "`images` with `labels`";
    one_of(phase, total, split.amount, own, keys)
}

/// Returns the source given by a one-file split, for training data of `total` samples.
pub(super) fn portion<'a>(
    portion: Option<&'a Portion>,
    phase: &'static str,
    total: usize,
) -> Result<Part<&'a Path>, DataError> {
    let Some(portion) = portion else {
        return Ok(Part::Nothing);
    };
    let own = match &portion.file {
        None => OwnFiles::Unsaid,
        Some(file) => OwnFiles::Said(file.as_path()),
    };
    one_of(phase, total, portion.amount, own, "`file`")
}

/// Whether a split names separate files.
pub(super) enum OwnFiles<F> {
    Unsaid,
    /// Only some of the options that belong together.
    Half,
    Said(F),
}

/// Returns the source given by a split, for training data of `total` samples; `keys` are the
/// options for separate files.
pub(super) fn one_of<F>(
    phase: &'static str,
    total: usize,
    amount: Amount,
    own: OwnFiles<F>,
    keys: &'static str,
) -> Result<Part<F>, DataError> {
    if let Some(fold) = amount.fold(phase)? {
        return match (amount, own) {
            (
                Amount {
                    count: None,
                    fraction: None,
                    ..
                },
                OwnFiles::Unsaid,
            ) => Ok(Part::Fold(fold)),
            _ => Err(DataError::SplitForm { phase, own: keys }),
        };
    }
    let outside = |key, range, found| DataError::SplitRange {
        phase,
        key,
        range,
        found,
    };
    match (amount.count, amount.fraction, own) {
        (Some(0), None, OwnFiles::Unsaid) => Err(outside("count", "at least 1", 0.0)),
        (Some(count), None, OwnFiles::Unsaid) => Ok(Part::Count(count)),
        (None, Some(fraction), OwnFiles::Unsaid) if fraction > 0.0 && fraction < 1.0 => Ok(
            Part::Count(((total as f64 * fraction).round() as usize).max(1)),
        ),
        (None, Some(fraction), OwnFiles::Unsaid) => {
            Err(outside("fraction", "above 0 and below 1", fraction))
        }
        (None, None, OwnFiles::Said(files)) => Ok(Part::Own(files)),
        _ => Err(DataError::SplitForm { phase, own: keys }),
    }
}

/// Selects `val` and `test` samples out of `total` at random from the seed.
pub(super) fn split(seed: u64, total: usize, val: Taken, test: Taken) -> Result<Parts, DataError> {
    let parts = divide(seed, &vec![0; total], val, test)?;
    parts.note(seed, val, (false, false));
    Ok(parts)
}

/// Like [`split`], but keeps the proportions of these classes in all parts.
///
/// Counts are rounded by the largest-remainder method; of folds, each class has as many samples in one as in another, or
/// one more.
pub(super) fn stratified(
    seed: u64,
    classes: &[u32],
    val: Taken,
    test: Taken,
) -> Result<Parts, DataError> {
    let parts = divide(seed, classes, val, test)?;
    parts.note(seed, val, (true, false));
    Ok(parts)
}

fn divide(seed: u64, classes: &[u32], val: Taken, test: Taken) -> Result<Parts, DataError> {
    let total = classes.len();
    let test = test.count(total);
    let val_count = val.count(total.saturating_sub(test));
    let taken = val_count.saturating_add(test);
    if taken >= total {
        return Err(DataError::NothingLeft {
            total,
            val: val_count,
            test,
        });
    }
    let mut left = BTreeMap::new();
    for &class in classes {
        *left.entry(class).or_insert(0) += 1;
    }
    let mut for_val = match val {
        Taken::Count(count) => apportion(&mut left, count),
        Taken::Fold(_) => BTreeMap::new(),
    };
    let mut for_test = apportion(&mut left, test);
    let order = if taken == 0 {
        (0..total as u32).collect()
    } else {
        random::stream(seed, "split", 0, 0).permutation(total)
    };
    let mut parts = Parts::default();
    for sample in order {
        let Some(class) = classes.get(sample as usize) else {
            continue;
        };
        let part = if take_one(&mut for_val, *class) {
            &mut parts.val
        } else if take_one(&mut for_test, *class) {
            &mut parts.test
        } else {
            &mut parts.train
        };
        part.push(sample);
    }
    if let Taken::Fold(fold) = val {
        take_fold(&mut parts, classes, fold);
    }
    for part in [&mut parts.train, &mut parts.val, &mut parts.test] {
        part.sort_unstable();
    }
    Ok(parts)
}

/// Moves a fold of the training samples, which are in random order, to those of the validation: class by class, each
/// sample belongs to the next fold.
fn take_fold(parts: &mut Parts, classes: &[u32], Fold { fold, folds }: Fold) {
    let class = |sample: &u32| classes.get(*sample as usize).copied();
    parts.train.sort_by_key(class);
    let all = std::mem::take(&mut parts.train).into_iter().enumerate();
    for (place, sample) in all {
        if place % folds + 1 == fold {
            parts.val.push(sample);
        } else {
            parts.train.push(sample);
        }
    }
}

/// Distributes `seats` over the classes in proportion to the samples `left` in each, and subtracts them:
/// Hamilton's method of largest remainders, ties in class order. `seats` is at most the number of
/// samples, so that no class gets more than it has.
fn apportion(left: &mut BTreeMap<u32, usize>, seats: usize) -> BTreeMap<u32, usize> {
    let total = left.values().sum::<usize>().max(1) as u128;
    let mut remainders = Vec::with_capacity(left.len());
    let mut shares = BTreeMap::new();
    let mut taken = 0;
    for (&class, count) in &*left {
        let product = seats as u128 * *count as u128;
        let share = (product / total) as usize;
        taken += share;
        shares.insert(class, share);
        remainders.push((product % total, class));
    }
    // The sort is stable: equal remainders stay in class order.
    remainders.sort_by_key(|(remainder, _)| std::cmp::Reverse(*remainder));
    for (_, class) in remainders.iter().take(seats - taken) {
        *shares.entry(*class).or_default() += 1;
    }
    for (class, count) in left {
        *count -= shares.get(class).copied().unwrap_or(0);
    }
    shares
}

/// Takes a seat of `class`, if one is left.
fn take_one(seats: &mut BTreeMap<u32, usize>, class: u32) -> bool {
    match seats.get_mut(&class) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}
