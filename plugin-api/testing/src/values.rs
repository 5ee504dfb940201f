//! Values and tensors published under names, in the test kit.

use super::fake::Fake;
use sconce_plugin_api::ext::Keep;

/// Values and tensors under names.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeValues {
    /// Slots are never moved, so that indices stay valid.
    pub(super) entries: Vec<Option<FakeValueEntry>>,
}

#[derive(Clone, Debug)]
pub(super) struct FakeValueEntry {
    pub(super) name: Box<str>,
    pub(super) keep: Keep,
    /// Whether the hook under test published it, rather than the script.
    pub(super) is_own: bool,
    pub(super) value: FakeValue,
}

#[derive(Clone, Debug)]
pub(super) enum FakeValue {
    Json(Box<str>),
    Tensor(Fake),
}

impl FakeValues {
    pub(super) fn set(&mut self, entry: FakeValueEntry) {
        self.remove(&entry.name);
        match self.entries.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(entry),
            None => self.entries.push(Some(entry)),
        }
    }

    /// Removes an entry; returns whether there was one.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let is_it = |entry: &FakeValueEntry| &*entry.name == name;
        let mut places = self.entries.iter_mut();
        let place = places.find(|place| place.as_ref().is_some_and(is_it));
        place.is_some_and(|place| place.take().is_some())
    }

    pub(super) fn forget(&mut self, keep: Keep) {
        for place in &mut self.entries {
            place.take_if(|entry| entry.keep == keep);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&FakeValueEntry> {
        let mut entries = self.entries.iter().flatten();
        entries.find(|entry| &*entry.name == name)
    }

    pub(super) fn json(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            FakeValue::Json(text) => Some(text),
            FakeValue::Tensor(_) => None,
        }
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&Fake> {
        match &self.get(name)?.value {
            FakeValue::Tensor(tensor) => Some(tensor),
            FakeValue::Json(_) => None,
        }
    }

    pub(super) fn tensor_at(&mut self, index: usize) -> Option<&mut Fake> {
        match &mut self.entries.get_mut(index)?.as_mut()?.value {
            FakeValue::Tensor(tensor) => Some(tensor),
            FakeValue::Json(_) => None,
        }
    }

    pub(super) fn tensor_index(&self, name: &str) -> Option<usize> {
        let is_it = |entry: &FakeValueEntry| {
            &*entry.name == name && matches!(entry.value, FakeValue::Tensor(_))
        };
        let mut places = self.entries.iter();
        places.position(|place| place.as_ref().is_some_and(is_it))
    }

    /// Why the hook cannot modify the tensor at an index; `None` if it can.
    pub(super) fn why_not_writable(&self, index: usize) -> Option<String> {
        let entry = self.entries.get(index)?.as_ref()?;
        let name = &entry.name;
        if !entry.is_own {
            return Some(format!(
                "`{name}` was published by another hook: only that one can change it"
            ));
        }
        (entry.keep == Keep::Batch)
            .then(|| format!("`{name}` is kept for the batch alone: publish it again to change it"))
    }
}
