//! Values and tensors published by hooks, and the extra entries of checkpoints.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use candle_core::Tensor;
use sconce_plugin_api::abi::TextAbi;
use sconce_plugin_api::ext::Keep;

use super::names::NextName;
use crate::hook_id::HookId;
use sconce_base::nearest::nearest;

/// Named values and tensors.
#[derive(Default)]
pub struct PublishedValues {
    /// Slots; an entry keeps its slot, and so its index, until it is removed or replaced.
    slots: RefCell<Vec<Option<ValueEntry>>>,
    /// Free slots; the lowest index is reused first.
    free: RefCell<BinaryHeap<Reverse<usize>>>,
    names: RefCell<BTreeMap<Box<str>, usize>>,
    next_name: NextName,
    /// Number of entries kept for the current batch only.
    of_batch: Cell<usize>,
}

struct ValueEntry {
    name: Box<str>,
    keep: Keep,
    /// Index of the hook that published it.
    /// The hook that published it; none if it is no longer configured.
    owner: Option<HookId>,
    value: ValueContent,
}

/// What a change of values has replaced.
pub(super) struct Replaced {
    name: Box<str>,
    /// The earlier entry of this name and its index.
    earlier: Option<(usize, ValueEntry)>,
    /// Whether the list of slots has grown.
    has_grown: bool,
}

/// A published value.
#[derive(Clone, Debug)]
pub enum ValueContent {
    /// JSON text.
    Json(Box<str>),
    /// A contiguous tensor.
    Tensor(Tensor),
}

impl PublishedValues {
    /// Publishes a value, replacing any earlier one of this name.
    pub fn set(&self, name: &str, keep: Keep, owner: Option<HookId>, value: ValueContent) {
        self.replace(name, keep, owner, value);
    }

    /// Publishes a value; returns what it has replaced.
    pub(super) fn replace(
        &self,
        name: &str,
        keep: Keep,
        owner: Option<HookId>,
        value: ValueContent,
    ) -> Replaced {
        let mut replaced = self.take(name).unwrap_or(Replaced {
            name: name.into(),
            earlier: None,
            has_grown: false,
        });
        let entry = ValueEntry {
            name: name.into(),
            keep,
            owner,
            value,
        };
        if keep == Keep::Batch {
            self.of_batch.set(self.of_batch.get() + 1);
        }
        let mut places = self.slots.borrow_mut();
        let free = self.free.borrow_mut().pop();
        let index = free.map_or_else(
            || {
                replaced.has_grown = true;
                places.push(None);
                places.len() - 1
            },
            |Reverse(index)| index,
        );
        if let Some(place) = places.get_mut(index) {
            *place = Some(entry);
        }
        self.names.borrow_mut().insert(name.into(), index);
        replaced
    }

    /// Removes the value of this name; returns whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        self.take(name).is_some()
    }

    /// Removes the value of this name and returns what it was, if there was one.
    pub(super) fn take(&self, name: &str) -> Option<Replaced> {
        let (name, index) = self.names.borrow_mut().remove_entry(name)?;
        let entry = self
            .slots
            .borrow_mut()
            .get_mut(index)
            .and_then(Option::take);
        self.free.borrow_mut().push(Reverse(index));
        let of_batch = |entry: &ValueEntry| entry.keep == Keep::Batch;
        if entry.as_ref().is_some_and(of_batch) {
            self.of_batch.set(self.of_batch.get().saturating_sub(1));
        }
        Some(Replaced {
            name,
            earlier: entry.map(|entry| (index, entry)),
            has_grown: false,
        })
    }

    /// Undoes the last change.
    pub(super) fn put_back(&self, replaced: Replaced) {
        self.remove(&replaced.name);
        let mut slots = self.slots.borrow_mut();
        let mut free = self.free.borrow_mut();
        if replaced.has_grown {
            slots.pop();
            free.retain(|Reverse(index)| *index < slots.len());
        }
        let Some((index, entry)) = replaced.earlier else {
            return;
        };
        free.retain(|Reverse(known)| *known != index);
        if entry.keep == Keep::Batch {
            self.of_batch.set(self.of_batch.get() + 1);
        }
        if let Some(place) = slots.get_mut(index) {
            *place = Some(entry);
        }
        self.names.borrow_mut().insert(replaced.name, index);
    }

    /// Removes the entries of a finished batch.
    pub fn end_batch(&self) {
        if self.of_batch.get() > 0 {
            self.forget(Keep::Batch);
        }
    }

    /// Removes all entries with this lifetime.
    pub fn forget(&self, keep: Keep) {
        let of_kind = |entry: &&ValueEntry| entry.keep == keep;
        let places = self.slots.borrow();
        let doomed: Vec<Box<str>> = (places.iter().flatten())
            .filter(of_kind)
            .map(|entry| entry.name.clone())
            .collect();
        drop(places);
        for name in doomed {
            self.remove(&name);
        }
    }

    /// All entries with this lifetime, in the order of their names.
    pub fn of_kind(&self, keep: Keep) -> Vec<(Box<str>, Option<HookId>, ValueContent)> {
        let places = self.slots.borrow();
        let names = self.names.borrow();
        let entries = names
            .values()
            .filter_map(|&index| places.get(index)?.as_ref());
        entries
            .filter(|entry| entry.keep == keep)
            .map(|entry| (entry.name.clone(), entry.owner, entry.value.clone()))
            .collect()
    }

    /// The tensor of this name, with its lifetime.
    pub fn tensor_of(&self, name: &str) -> Option<(Keep, Tensor)> {
        let index = self.names.borrow().get(name).copied()?;
        match self.slots.borrow().get(index)? {
            Some(ValueEntry {
                keep,
                value: ValueContent::Tensor(tensor),
                ..
            }) => Some((*keep, tensor.clone())),
            _ => None,
        }
    }

    /// The hook that has published the tensor of this name.
    pub(super) fn publisher_of(&self, name: &str) -> Option<HookId> {
        let index = self.names.borrow().get(name).copied()?;
        match self.slots.borrow().get(index)? {
            Some(ValueEntry {
                owner,
                value: ValueContent::Tensor(_),
                ..
            }) => *owner,
            _ => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.borrow().len()
    }

    pub(super) fn name(&self, index: usize) -> Option<TextAbi> {
        let places = self.slots.borrow();
        let entry = places.get(index)?.as_ref()?;
        Some(TextAbi::new(&entry.name))
    }

    pub(super) fn tensor(&self, index: usize) -> Option<Tensor> {
        match &self.slots.borrow().get(index)?.as_ref()?.value {
            ValueContent::Tensor(tensor) => Some(tensor.clone()),
            ValueContent::Json(_) => None,
        }
    }

    /// Puts a tensor with the same elements in the place of the one at `index`: the same one on a device.
    pub(super) fn replace_tensor(&self, index: usize, same: Tensor) {
        let mut places = self.slots.borrow_mut();
        if let Some(Some(entry)) = places.get_mut(index)
            && let ValueContent::Tensor(tensor) = &mut entry.value
        {
            *tensor = same;
        }
    }

    pub(super) fn tensor_index(&self, name: &str) -> Result<usize, String> {
        let is_next = |entry: &ValueEntry| {
            &*entry.name == name && matches!(entry.value, ValueContent::Tensor(_))
        };
        let next = self.next_name.expected();
        if let Some(Some(entry)) = self.slots.borrow().get(next)
            && is_next(entry)
        {
            return Ok(self.next_name.found(next));
        }
        let names = self.names.borrow();
        if let Some(&index) = names.get(name) {
            if self.tensor(index).is_none() {
                return Err(format!("`{name}` is published as a value, not as a tensor"));
            }
            return Ok(self.next_name.found(index));
        }
        let hint = nearest(name, names.keys().map(|name| &**name))
            .map(|near| format!("; did you mean `{near}`?"));
        Err(format!(
            "no hook has published a tensor `{name}`{}",
            hint.unwrap_or_default()
        ))
    }

    /// The JSON text of this name; it does not move until the name is set again or removed.
    pub(super) fn json(&self, name: &str) -> Option<TextAbi> {
        let index = self.names.borrow().get(name).copied()?;
        match &self.slots.borrow().get(index)?.as_ref()?.value {
            ValueContent::Json(text) => Some(TextAbi::new(text)),
            ValueContent::Tensor(_) => None,
        }
    }

    /// Reason why a hook can't write to the tensor at `index`, or `None` if it can.
    pub(super) fn why_not_writable(&self, index: usize, hook: Option<HookId>) -> Option<String> {
        let places = self.slots.borrow();
        let entry = places.get(index)?.as_ref()?;
        if entry.owner != hook {
            return Some(format!(
                "`{}` was published by another hook: only that one can change it",
                entry.name
            ));
        }
        (entry.keep == Keep::Batch).then(|| {
            format!(
                "`{}` is kept for the batch alone: publish it again to change it",
                entry.name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "as owners of values are stored")]
    fn hook(position: usize) -> Option<HookId> {
        Some(HookId::at(position))
    }

    fn json(text: &str) -> ValueContent {
        ValueContent::Json(text.into())
    }

    #[test]
    fn what_is_kept_for_a_batch_goes_with_it_and_places_are_used_again() {
        let values = PublishedValues::default();
        values.set("a", Keep::Run, hook(0), json("1"));
        values.set("b", Keep::Batch, hook(0), json("2"));
        values.set("c", Keep::Epoch, hook(0), json("3"));
        values.end_batch();
        assert!(values.json("b").is_none());
        values.set("d", Keep::Batch, hook(0), json("4"));
        assert_eq!(values.len(), 3, "the place of `b`");
        values.forget(Keep::Epoch);
        assert!(values.json("c").is_none() && values.json("d").is_some());
        // The same name again, with another lifetime.
        values.set("d", Keep::Run, hook(0), json("5"));
        values.end_batch();
        let kept = values.of_kind(Keep::Run);
        let names: Vec<&str> = kept.iter().map(|(name, _, _)| &**name).collect();
        assert_eq!(names, ["a", "d"]);
        assert!(values.remove("a") && !values.remove("a"));
    }

    #[test]
    fn so_many_values_that_none_may_look_at_all_others() {
        // With a linear search for each: 10^11 comparisons.
        let values = PublishedValues::default();
        for _ in 0..2 {
            for index in 0..200_000 {
                values.set(&format!("value/{index}"), Keep::Batch, hook(0), json("1"));
            }
            assert_eq!(values.len(), 200_000);
            values.end_batch();
        }
        // The lowest free slot is reused first.
        values.set("one", Keep::Run, hook(0), json("1"));
        assert!(values.name(0).is_some() && values.name(1).is_none());
    }

    #[test]
    fn a_tensor_is_written_to_by_its_publisher_alone() {
        let values = PublishedValues::default();
        let tensor = Tensor::zeros(2, DType::F32, &Device::Cpu).expect("a tensor");
        values.set(
            "mine",
            Keep::Run,
            hook(3),
            ValueContent::Tensor(tensor.clone()),
        );
        values.set(
            "passing",
            Keep::Batch,
            hook(3),
            ValueContent::Tensor(tensor),
        );
        let index = |name| values.tensor_index(name).expect("it is there");
        assert_eq!(values.why_not_writable(index("mine"), hook(3)), None);
        let other = values
            .why_not_writable(index("mine"), hook(1))
            .expect("refused");
        assert!(other.contains("another hook"), "{other}");
        let batch = values
            .why_not_writable(index("passing"), hook(3))
            .expect("refused");
        assert!(batch.contains("the batch alone"), "{batch}");
        let mistyped = values.tensor_index("mien").expect_err("unknown");
        assert!(mistyped.contains("did you mean `mine`?"), "{mistyped}");
        values.set("value", Keep::Run, hook(3), json("1"));
        assert!(values.tensor_index("value").is_err());
    }
}
