//! Tensors of a device as hooks see them: copies in host memory.
//!
//! A hook that knows nothing of devices is lent host memory. A tensor on a device is copied when a hook first reads it at a
//! mount point, once for all hooks of the point; what was lent for writing goes back after the last of them, before anything of
//! the host reads it. Copies are made into the memory of the ones before at the same place, as long as shape and type are the
//! same.
//!
//! **States** of a copy: *current* from its first use at a point until the end of the point; then the memory alone stays.
//! While it is current it is *lent for writing* if a hook asked for that, and goes back at the end. A [pass](crate::bridge::Passes) over
//! the original first takes what was written ([`HostCopies::flush`]), and if it changes the original, the copy becomes current
//! again, where a hook may still look at it in this call ([`HostCopies::changed`]), or is forgotten.
//!
//! On the CPU tensors are lent in place, unless [`VARIABLE`] is `always`: then they are copied as those of a device, with which
//! the suites for hooks can test all this on any machine.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{Device, Result, Tensor};
use sconce_ops::{device, host_copy};
use sconce_plugin_api::ext::Collection;

use crate::hook_id::HookId;

/// Environment variable that makes tensors on the CPU be copied as those of a device, for tests: `always`.
pub const VARIABLE: &str = "SCONCE_HOOK_COPIES";

/// Whether tensors on the CPU are copied for hooks too.
pub fn always_copies() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == "always")
}

/// Where a tensor is: the collection's number, and the index in it.
type Place = (u32, usize);

/// The copies of a run.
pub(in crate::bridge) struct HostCopies {
    is_always: bool,
    /// Whether a copy is current.
    is_used: Cell<bool>,
    copies: RefCell<BTreeMap<Place, HostCopy>>,
    costs: RefCell<Vec<(HookId, CopyCosts)>>,
}

/// What copies for a hook have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CopyCosts {
    /// Number of copies, in both directions.
    pub count: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Time it took, including that for which the device's earlier work was waited for.
    pub time: Duration,
}

impl CopyCosts {
    /// Adds other copies.
    pub fn add(&mut self, other: CopyCosts) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.time += other.time;
    }
}

/// The host's copy of a tensor.
struct HostCopy {
    copy: Tensor,
    /// The tensor on the device; none if the copy is not current.
    original: Option<Tensor>,
    /// The hook that it was first lent to for writing at this point.
    writer: Option<Writer>,
    /// The hook that it was last lent to at this point.
    reader: Option<HookId>,
    /// As long as a hook retains the memory, others than this one hold it.
    holders: Arc<()>,
}

/// Who has written to a copy: a hook, or the host, which nothing is charged to.
#[derive(Clone, Copy)]
struct Writer(Option<HookId>);

/// Keeps a copy's memory from being used again.
#[derive(Debug)]
pub(in crate::bridge) struct Held {
    _holders: Arc<()>,
}

impl Default for HostCopies {
    /// None; the environment says whether tensors on the CPU are copied, too.
    fn default() -> HostCopies {
        HostCopies {
            is_always: always_copies(),
            is_used: Cell::new(false),
            copies: RefCell::default(),
            costs: RefCell::default(),
        }
    }
}

impl HostCopies {
    /// Whether a copy is current.
    #[inline]
    pub(in crate::bridge) fn is_used(&self) -> bool {
        self.is_used.get()
    }

    /// Whether hooks are lent a copy of a tensor.
    pub(in crate::bridge) fn copies(&self, tensor: &Tensor) -> bool {
        self.is_always || !tensor.device().is_cpu()
    }

    /// The copy of a tensor, made now if it is not current, for a hook that reads it, or writes to it.
    pub(in crate::bridge) fn lend(
        &self,
        (collection, index): (Collection, usize),
        original: &Tensor,
        writable: bool,
        hook: Option<HookId>,
    ) -> Result<(Tensor, Held)> {
        let mut copies = self.copies.borrow_mut();
        let place = (collection as u32, index);
        let is_of = |copy: &&mut HostCopy| {
            let known = copy.original.as_ref();
            known.is_some_and(|known| known.id() == original.id())
        };
        if copies
            .get_mut(&place)
            .as_ref()
            .is_none_or(|copy| !is_of(copy))
        {
            self.give_back_one(copies.get_mut(&place))?;
            let memory = copies.remove(&place);
            let copy = self.taken(original, memory, hook)?;
            copies.insert(place, copy);
            self.is_used.set(true);
        }
        let Some(copy) = copies.get_mut(&place) else {
            candle_core::bail!("a tensor's copy is gone");
        };
        copy.reader = hook;
        if writable && copy.writer.is_none() {
            copy.writer = Some(Writer(hook));
        }
        let held = Held {
            _holders: Arc::clone(&copy.holders),
        };
        Ok((copy.copy.clone(), held))
    }

    /// Takes host memory that a hook may have been lent as the copy of a tensor with the same elements, which has just taken its
    /// place.
    pub(in crate::bridge) fn adopt(
        &self,
        (collection, index): (Collection, usize),
        memory: Tensor,
        original: Tensor,
        hook: Option<HookId>,
    ) {
        let copy = HostCopy {
            copy: memory,
            original: Some(original),
            writer: None,
            reader: hook,
            holders: Arc::default(),
        };
        let place = (collection as u32, index);
        self.copies.borrow_mut().insert(place, copy);
        self.is_used.set(true);
    }

    /// Copies a tensor, into the memory of an earlier copy if it fits and nobody holds it.
    fn taken(
        &self,
        original: &Tensor,
        memory: Option<HostCopy>,
        hook: Option<HookId>,
    ) -> Result<HostCopy> {
        let fits = |memory: &HostCopy| {
            Arc::strong_count(&memory.holders) == 1
                && memory.copy.dims() == original.dims()
                && memory.copy.dtype() == original.dtype()
        };
        let (copy, holders) = if let Some(memory) = memory.filter(fits) {
            (memory.copy, memory.holders)
        } else {
            let copy = Tensor::zeros(original.dims(), original.dtype(), &Device::Cpu)?;
            (copy, Arc::default())
        };
        self.read(original, &copy, hook)?;
        Ok(HostCopy {
            copy,
            original: Some(original.clone()),
            writer: None,
            reader: None,
            holders,
        })
    }

    /// Ends a mount point: what was lent for writing goes back. If that fails, with the hook that has written.
    pub(in crate::bridge) fn end_point(
        &self,
    ) -> std::result::Result<(), (Option<HookId>, candle_core::Error)> {
        if !self.is_used.replace(false) {
            return Ok(());
        }
        let mut first = Ok(());
        for copy in self.copies.borrow_mut().values_mut() {
            let writer = copy.writer.and_then(|Writer(hook)| hook);
            let given = self.give_back_one(Some(copy));
            copy.original = None;
            copy.writer = None;
            if let Err(error) = given
                && first.is_ok()
            {
                first = Err((writer, error));
            }
        }
        first
    }

    /// Writes what hooks have written to the originals of a collection, which the host is about to read.
    pub(in crate::bridge) fn flush(&self, collection: Collection) -> Result<()> {
        self.for_collection(collection, |copy| self.give_back_one(Some(copy)))
    }

    /// The originals at these places have changed: copies that the hook in its call may look at become those of the new
    /// elements, all others are forgotten.
    pub(in crate::bridge) fn changed(
        &self,
        collection: Collection,
        is_changed: impl Fn(&Tensor) -> bool,
        hook: Option<HookId>,
    ) -> Result<()> {
        self.for_collection(collection, |copy| {
            let Some(original) = copy.original.as_ref().filter(|one| is_changed(one)) else {
                return Ok(());
            };
            if copy.reader == hook {
                self.read(original, &copy.copy, hook)?;
            } else {
                copy.original = None;
                copy.writer = None;
            }
            Ok(())
        })
    }

    /// Forgets a copy: the original is about to be written to.
    pub(in crate::bridge) fn forget(&self, (collection, index): (Collection, usize)) {
        if let Some(copy) = (self.copies.borrow_mut()).get_mut(&(collection as u32, index)) {
            copy.original = None;
            copy.writer = None;
        }
    }

    /// What copies have cost since this was last asked.
    pub(in crate::bridge) fn take_costs(&self) -> Vec<(HookId, CopyCosts)> {
        std::mem::take(&mut self.costs.borrow_mut())
    }

    fn for_collection(
        &self,
        collection: Collection,
        mut work: impl FnMut(&mut HostCopy) -> Result<()>,
    ) -> Result<()> {
        if !self.is_used.get() {
            return Ok(());
        }
        let number = collection as u32;
        let mut copies = self.copies.borrow_mut();
        copies
            .range_mut((number, 0)..=(number, usize::MAX))
            .try_for_each(|(_, copy)| work(copy))
    }

    /// Writes a copy to its original, if it was lent for writing.
    fn give_back_one(&self, copy: Option<&mut HostCopy>) -> Result<()> {
        let Some(copy) = copy else { return Ok(()) };
        let (Some(Writer(writer)), Some(original)) = (copy.writer, &copy.original) else {
            return Ok(());
        };
        let start = Instant::now();
        host_copy::write(original, &copy.copy)?;
        self.charge(writer, original, start);
        Ok(())
    }

    /// Copies an original to host memory. What the device still has to do before it can be copied is not charged to the hook.
    fn read(&self, original: &Tensor, copy: &Tensor, hook: Option<HookId>) -> Result<()> {
        device::synchronize(original.device())?;
        let start = Instant::now();
        host_copy::read(original, copy)?;
        self.charge(hook, original, start);
        Ok(())
    }

    fn charge(&self, hook: Option<HookId>, tensor: &Tensor, start: Instant) {
        let Some(hook) = hook else { return };
        let cost = CopyCosts {
            count: 1,
            bytes: (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64,
            time: start.elapsed(),
        };
        let mut costs = self.costs.borrow_mut();
        match costs.iter_mut().find(|(known, _)| *known == hook) {
            Some((_, costs)) => costs.add(cost),
            None => costs.push((hook, cost)),
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;

    const WEIGHT: (Collection, usize) = (Collection::Parameters, 0);

    fn hook(position: usize) -> HookId {
        HookId::at(position)
    }

    fn numbers(tensor: &Tensor) -> Vec<f32> {
        tensor.to_vec1().expect("numbers")
    }

    fn address(tensor: &Tensor) -> usize {
        let (storage, _) = tensor.storage_and_layout();
        let candle_core::Storage::Cpu(storage) = &*storage else {
            return 0;
        };
        storage.as_slice::<f32>().expect("f32").as_ptr().addr()
    }

    fn fill(tensor: &Tensor, number: f32) {
        let other = Tensor::full(number, tensor.dims(), &Device::Cpu).expect("a tensor");
        host_copy::write(tensor, &other).expect("written");
    }

    #[test]
    fn what_is_written_goes_back_at_the_end_of_the_point_and_memory_is_used_again() -> Result<()> {
        let copies = HostCopies::default();
        let weight = Tensor::ones(3, DType::F32, &Device::Cpu)?;
        let (read, _) = copies.lend(WEIGHT, &weight, false, Some(hook(0)))?;
        let (written, _) = copies.lend(WEIGHT, &weight, true, Some(hook(1)))?;
        assert_eq!(address(&read), address(&written), "one copy for all hooks");
        fill(&written, 5.0);
        assert_eq!(
            numbers(&weight),
            [1.0; 3],
            "not before the end of the point"
        );
        copies.end_point().expect("given back");
        assert_eq!(numbers(&weight), [5.0; 3]);
        let costs = copies.take_costs();
        let counts: Vec<_> = costs
            .iter()
            .map(|(id, cost)| (*id, cost.count, cost.bytes))
            .collect();
        assert_eq!(counts, [(HookId::at(0), 1, 12), (HookId::at(1), 1, 12)]);
        fill(&weight, 7.0);
        let (again, _) = copies.lend(WEIGHT, &weight, false, Some(hook(0)))?;
        assert_eq!(
            (address(&again), numbers(&again)),
            (address(&read), vec![7.0; 3])
        );
        fill(&weight, 8.0);
        copies.end_point().expect("nothing to give back");
        assert_eq!(numbers(&weight), [8.0; 3], "it was only read");
        Ok(())
    }

    #[test]
    fn memory_that_a_hook_retains_is_not_written_to() -> Result<()> {
        let copies = HostCopies::default();
        let weight = Tensor::ones(3, DType::F32, &Device::Cpu)?;
        let (kept, held) = copies.lend(WEIGHT, &weight, false, Some(hook(0)))?;
        copies.end_point().expect("nothing to give back");
        fill(&weight, 2.0);
        let (other, _) = copies.lend(WEIGHT, &weight, false, Some(hook(0)))?;
        assert_ne!(address(&kept), address(&other));
        assert_eq!(
            (numbers(&kept), numbers(&other)),
            (vec![1.0; 3], vec![2.0; 3])
        );
        drop(held);
        copies.end_point().expect("nothing to give back");
        let (again, _) = copies.lend(WEIGHT, &weight, false, Some(hook(0)))?;
        assert_eq!(address(&again), address(&other));
        Ok(())
    }

    #[test]
    fn passes_over_originals_and_their_copies_see_each_other() -> Result<()> {
        let copies = HostCopies::default();
        let weight = Tensor::ones(2, DType::F32, &Device::Cpu)?;
        let (written, _) = copies.lend(WEIGHT, &weight, true, Some(hook(0)))?;
        fill(&written, 3.0);
        copies.flush(Collection::Parameters)?;
        assert_eq!(numbers(&weight), [3.0; 2]);
        // The host changes it: the hook that wrote sees that, and may write on.
        fill(&weight, 4.0);
        copies.changed(Collection::Parameters, |_| true, Some(hook(0)))?;
        assert_eq!(numbers(&written), [4.0; 2]);
        // Another hook's copies are made anew when somebody asks.
        fill(&weight, 6.0);
        copies.changed(Collection::Parameters, |_| true, Some(hook(1)))?;
        copies.end_point().expect("nothing to give back");
        assert_eq!(numbers(&weight), [6.0; 2], "the old copy did not go back");
        Ok(())
    }

    #[test]
    fn another_tensor_at_the_same_place_is_copied_anew() -> Result<()> {
        let copies = HostCopies::default();
        let one = Tensor::ones(2, DType::F32, &Device::Cpu)?;
        let other = Tensor::zeros((2, 2), DType::F32, &Device::Cpu)?;
        let (written, _) = copies.lend(WEIGHT, &one, true, Some(hook(0)))?;
        fill(&written, 3.0);
        let (lent, _) = copies.lend(WEIGHT, &other, false, Some(hook(0)))?;
        assert_eq!(lent.dims(), [2, 2]);
        assert_eq!(numbers(&one), [3.0; 2], "it went back first");
        Ok(())
    }
}
