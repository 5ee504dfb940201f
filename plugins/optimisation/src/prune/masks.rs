//! Masks of the pruned elements.
//!
//! The masks are bits here and in checkpoints. For the host, which multiplies the parameters by them after each update
//! wherever the parameters are, they are published as tensors of ones and zeros, again whenever they have changed or
//! were dropped at the beginning of an epoch.

use sconce_plugin_api::Vectors;
use sconce_plugin_api::ext::{Collection, Combination};
use sconce_plugin_api::prelude::*;

use super::Structure;

/// The masks of all pruned parameters.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    each: Vec<Mask>,
    /// Number of elements that are pruned.
    pruned: usize,
    /// The parameters and the published masks; `None` if a mask has changed since.
    published: Option<(Vectors, Vectors)>,
}

/// A parameter and which of its elements are kept.
#[derive(Clone, Debug, PartialEq)]
struct Mask {
    name: String,
    /// Number of elements per row, that is, per index of the first dimension.
    row: usize,
    left: Vec<bool>,
    /// Shape and type of the parameter, once it was looked at, so that publishing the mask reads nothing.
    form: Option<Form>,
}

/// What a published mask has in common with its parameter.
#[derive(Clone, Debug, PartialEq)]
struct Form {
    shape: Vec<usize>,
    is_double: bool,
}

impl Form {
    fn of(parameter: &Tensor<'_>) -> Form {
        let shape = parameter.shape().iter();
        Form {
            shape: shape.map(|&size| size as usize).collect(),
            is_double: parameter.dtype() == Some(DType::F64),
        }
    }
}

/// A unit that can be pruned: its magnitude (below 0 if it is pruned already), its mask's index and its
/// index there.
type Candidate = (f64, usize, usize);

impl Masks {
    /// Creates masks for these parameters, keeping existing ones; new ones prune nothing.
    pub(crate) fn begin(&mut self, task: &TaskView<'_>, chosen: &[String]) -> Result<()> {
        let mut masks = Vec::with_capacity(chosen.len());
        for name in chosen {
            let parameter = task.parameter(name)?;
            let rows = match parameter.shape() {
                [] | [_] => parameter.len(),
                [rows, ..] => *rows as usize,
            };
            let mut known = self
                .each
                .iter()
                .filter(|mask| mask.left.len() == parameter.len());
            let known = known.find(|mask| mask.name == *name).cloned();
            masks.push(Mask {
                name: name.clone(),
                // From the parameter, not from a checkpoint.
                row: (parameter.len() / rows.max(1)).max(1),
                left: known.map_or_else(|| vec![true; parameter.len()], |mask| mask.left),
                form: Some(Form::of(&parameter)),
            });
        }
        *self = Masks::of(masks);
        Ok(())
    }

    fn of(masks: Vec<Mask>) -> Masks {
        let mut masks = Masks {
            each: masks,
            ..Masks::default()
        };
        masks.count();
        masks
    }

    /// Counts the pruned elements, after masks have changed.
    fn count(&mut self) {
        let left = self.each.iter().flat_map(|mask| &mask.left);
        self.pruned = left.filter(|left| !**left).count();
        self.published = None;
    }

    /// Prunes the smallest units until the given fraction of all, or of each parameter, is pruned; pruned
    /// ones stay so.
    pub(crate) fn prune(
        &mut self,
        task: &TaskView<'_>,
        share: f64,
        global: bool,
        structure: Structure,
    ) -> Result<()> {
        let mut together = Vec::new();
        for (index, mask) in self.each.iter_mut().enumerate() {
            let parameter = task.parameter(&mask.name)?;
            let sizes: Vec<f64> = match parameter.dtype() {
                Some(DType::F64) => parameter.elements::<f64>()?.map(f64::abs).collect(),
                _ => (parameter.elements::<f32>()?)
                    .map(|number| f64::from(number.abs()))
                    .collect(),
            };
            let mut candidates = mask.candidates(index, &sizes, structure);
            if global {
                together.append(&mut candidates);
                continue;
            }
            for (_, _, place) in smallest(&mut candidates, share) {
                mask.drop_unit(*place, structure);
            }
        }
        for (_, index, place) in smallest(&mut together, share) {
            if let Some(mask) = self.each.get_mut(*index) {
                mask.drop_unit(*place, structure);
            }
        }
        self.count();
        Ok(())
    }

    /// Multiplies the parameters by the masks, which sets the pruned elements to zero; `set` is the first part of the
    /// published masks' names.
    pub(crate) fn apply(&mut self, task: &mut TaskView<'_>, set: &str) -> Result<()> {
        let Some(first) = self.each.first().filter(|_| self.pruned > 0) else {
            return Ok(());
        };
        // The host drops them at the beginning of an epoch, and no checkpoint has them.
        let are_there = task
            .tensors(Collection::Published)
            .has(&first.published(set))?;
        let (parameters, masks) = match &mut self.published {
            Some(published) if are_there => published,
            published => published.insert(publish(&mut self.each, task, set)?),
        };
        parameters.combine(task, masks, Combination::Multiply)
    }

    /// Returns the fraction of elements that are pruned.
    pub(crate) fn sparsity(&self) -> f64 {
        let all: usize = self.each.iter().map(|mask| mask.left.len()).sum();
        self.pruned as f64 / all.max(1) as f64
    }

    /// Serialises names and sizes as a line of JSON, followed by the masks with eight elements per byte.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let masks = self.each.iter();
        let sizes: Vec<_> = masks
            .map(|mask| (&mask.name, mask.row, mask.left.len()))
            .collect();
        let mut bytes = state::to_bytes(&sizes)?;
        bytes.push(b'\n');
        for mask in &self.each {
            let pack = |part: &[bool]| {
                let bits = part.iter().enumerate();
                bits.fold(0, |byte, (bit, left)| byte | u8::from(*left) << bit)
            };
            bytes.extend(mask.left.chunks(8).map(pack));
        }
        Ok(bytes)
    }

    /// Reads what [`to_bytes`](Masks::to_bytes) wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Masks> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let Some((head, mut rest)) = end.map(|end| bytes.split_at(end)) else {
            bail!("the masks of a checkpoint can't be read: they are another version's");
        };
        rest = rest.get(1..).unwrap_or_default();
        let sizes: Vec<(String, usize, usize)> = state::from_bytes(head)?;
        let mut masks = Vec::with_capacity(sizes.len());
        for (name, row, length) in sizes {
            if row == 0 || length % row != 0 {
                bail!(
                    "the mask of `{name}` in the checkpoint has {length} numbers in rows of {row}"
                );
            }
            let Some((packed, others)) = rest.split_at_checked(length.div_ceil(8)) else {
                bail!("the mask of `{name}` in the checkpoint is cut off");
            };
            let bits = packed
                .iter()
                .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
            masks.push(Mask {
                name,
                row,
                left: bits.take(length).collect(),
                form: None,
            });
            rest = others;
        }
        if !rest.is_empty() {
            bail!(
                "the masks of the checkpoint are followed by {} bytes of nothing",
                rest.len()
            );
        }
        Ok(Masks::of(masks))
    }
}

/// Publishes the masks as tensors of their parameters' shapes and types; returns the parameters and the masks.
fn publish(masks: &mut [Mask], task: &mut TaskView<'_>, set: &str) -> Result<(Vectors, Vectors)> {
    for mask in &mut *masks {
        let form = match mask.form.take() {
            Some(form) => form,
            None => Form::of(&task.parameter(&mask.name)?),
        };
        let (name, shape) = (mask.published(set), &form.shape);
        if form.is_double {
            task.publish_tensor(&name, shape, &mask.ones(1.0_f64), Keep::Epoch)?;
        } else {
            task.publish_tensor(&name, shape, &mask.ones(1.0_f32), Keep::Epoch)?;
        }
        mask.form = Some(form);
    }
    let published = masks.iter().map(|mask| mask.published(set));
    Ok((
        Vectors::named(Collection::Parameters, masks.iter().map(|mask| &mask.name)),
        Vectors::named(Collection::Published, published),
    ))
}

impl Mask {
    /// Returns all units, including those already pruned.
    fn candidates(&self, index: usize, sizes: &[f64], structure: Structure) -> Vec<Candidate> {
        let row = match structure {
            Structure::Element => 1,
            Structure::Row => self.row,
        };
        let units = sizes.chunks(row).zip(self.left.chunks(row)).enumerate();
        units
            .map(|(place, (sizes, left))| {
                let mean = sizes.iter().sum::<f64>() / sizes.len().max(1) as f64;
                let is_left = left.iter().any(|left| *left);
                (if is_left { mean } else { -1.0 }, index, place)
            })
            .collect()
    }

    fn drop_unit(&mut self, place: usize, structure: Structure) {
        let row = match structure {
            Structure::Element => 1,
            Structure::Row => self.row,
        };
        if let Some(unit) = self.left.chunks_mut(row).nth(place) {
            unit.fill(false);
        }
    }

    /// Name under which the mask is published.
    fn published(&self, set: &str) -> String {
        format!("{set}/mask/{}", self.name)
    }

    /// `one` for each element that is kept, zero for the others.
    fn ones<T: Element + Default>(&self, one: T) -> Vec<T> {
        let left = self.left.iter();
        left.map(|left| if *left { one } else { T::default() })
            .collect()
    }
}

/// Returns the smallest candidates up to the given fraction, ties by position. Their number is rounded to
/// the nearest integer, halves to the even one, as in PyTorch.
fn smallest(candidates: &mut [Candidate], share: f64) -> &[Candidate] {
    let count = (share * candidates.len() as f64).round_ties_even() as usize;
    if count == 0 {
        return &[];
    }
    if count < candidates.len() {
        candidates.select_nth_unstable_by(count - 1, |left, right| {
            let by_size = left.0.total_cmp(&right.0);
            by_size.then((left.1, left.2).cmp(&(right.1, right.2)))
        });
    }
    candidates.get(..count).unwrap_or(candidates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(parameters: &[(Vec<usize>, Vec<f64>)]) -> Masks {
        let mask = |(index, (shape, numbers)): (usize, &(Vec<usize>, Vec<f64>))| Mask {
            name: index.to_string(),
            row: numbers.len() / shape[0],
            left: vec![true; numbers.len()],
            form: None,
        };
        Masks::of(parameters.iter().enumerate().map(mask).collect())
    }

    /// Compares with masks of PyTorch's `torch.nn.utils.prune`, see `tests/reference/pruning.py`.
    #[test]
    fn what_goes_is_what_pytorch_prunes() {
        let text = include_str!("../../../../tests/reference/pruning.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(text).expect("JSON");
        assert!(cases.len() > 5);
        for case in cases {
            let parameters: Vec<(Vec<usize>, Vec<f64>)> =
                serde_json::from_value(case["parameters"].clone()).expect("parameters");
            let structure: Structure =
                serde_json::from_value(case["structure"].clone()).expect("a structure");
            let mut masks = masks(&parameters);
            for share in case["shares"].as_array().expect("shares") {
                let share = share.as_f64().expect("a share");
                let mut together = Vec::new();
                for (index, (_, numbers)) in parameters.iter().enumerate() {
                    let mask = &mut masks.each[index];
                    let sizes: Vec<f64> = numbers.iter().map(|number| number.abs()).collect();
                    let mut candidates = mask.candidates(index, &sizes, structure);
                    if case["global"] == true {
                        together.append(&mut candidates);
                        continue;
                    }
                    for (_, _, place) in smallest(&mut candidates, share) {
                        mask.drop_unit(*place, structure);
                    }
                }
                for (_, index, place) in smallest(&mut together, share) {
                    masks.each[*index].drop_unit(*place, structure);
                }
            }
            let expected: Vec<Vec<u8>> =
                serde_json::from_value(case["masks"].clone()).expect("masks");
            assert!(!expected.is_empty() && masks.each.len() == expected.len());
            for (mask, expected) in masks.each.iter().zip(expected) {
                let found: Vec<u8> = mask.left.iter().map(|left| u8::from(*left)).collect();
                assert_eq!(found, expected, "{case}");
            }
        }
    }

    #[test]
    fn masks_come_back_from_their_bytes() {
        let mut masks = masks(&[(vec![3, 5], vec![0.0; 15]), (vec![2], vec![0.0; 2])]);
        for place in [0, 7, 14] {
            masks.each[0].drop_unit(place, Structure::Element);
        }
        masks.each[1].drop_unit(1, Structure::Row);
        masks.count();
        let bytes = masks.to_bytes().expect("bytes");
        let again = Masks::from_bytes(&bytes).expect("masks");
        assert_eq!((&again.each, again.pruned), (&masks.each, 4));
        assert!(Masks::from_bytes(&bytes[..bytes.len() - 1]).is_err());
        assert!(Masks::from_bytes(b"[]").is_err());
        assert!((masks.sparsity() - 4.0 / 17.0).abs() < 1e-12);
    }
}
