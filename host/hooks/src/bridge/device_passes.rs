//! Passes over collections of tensors on a device, done there: `sconce.vectors/1` where a run's parameters are on one.
//!
//! Tensors that hooks have published are in host memory until a pass needs them together with the device's: then they are taken
//! there, and stay.

use candle_core::{Device, Tensor};
use sconce_ops::vectors::{self, Slices};
use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{Change, Collection, Combination, Reduction, Refusal, VectorsAbi};

use super::passes::{known, known_change, known_combination};
use super::shared::BridgeState;

/// The tensors of a pass.
pub(super) struct Selection {
    collection: Collection,
    tensors: Vec<(Tensor, Slices)>,
}

impl Selection {
    /// Selects the tensors that a plugin asks for, where they are.
    ///
    /// # Safety
    ///
    /// The indices of `vectors` are borrowed for the call, or null.
    pub(super) unsafe fn of(
        shared: &BridgeState<'_>,
        vectors: &VectorsAbi,
        writable: bool,
    ) -> Result<Selection, Refusal> {
        // SAFETY: guaranteed by the caller.
        let given = unsafe { vectors.chosen() }?;
        let Some(collection) = Collection::from_number(vectors.collection) else {
            let message = "this host has no such tensors".to_owned();
            return Err(Refusal::new(Status::UNSUPPORTED, message));
        };
        let count = given.map_or_else(|| shared.tensor_count(collection), <[usize]>::len);
        let mut tensors = Vec::with_capacity(count);
        for place in 0..count {
            let index = given.map_or(place, |given| given[place]);
            if writable && let Some(refusal) = shared.why_not_lent(collection, index) {
                return Err(refusal.into());
            }
            let tensor = if writable {
                let found = shared.writable_tensor(collection, index);
                found.map_err(|error| {
                    let name = shared.name_at(collection, index);
                    Refusal::new(Status::UNSUPPORTED, format!("`{name}`: {error}"))
                })?
            } else {
                shared.tensor(collection, index)
            };
            match tensor {
                Some(tensor) => {
                    let tensor = on_device(shared, (collection, index), tensor)?;
                    let slices = Slices::along(tensor.dims(), vectors.axis as usize);
                    tensors.push((tensor, slices));
                }
                None if given.is_none() => {}
                None => return Err(Refusal::NOT_FOUND),
            }
        }
        let selection = Selection {
            collection,
            tensors,
        };
        // What hooks have written to copies at this point counts.
        shared.device.copies.flush(collection).map_err(failed)?;
        Ok(selection)
    }

    /// Number of slices of all tensors.
    pub(super) fn slice_count(&self) -> usize {
        self.tensors.iter().map(|(_, slices)| slices.count()).sum()
    }

    /// The results of a reduction, in order.
    pub(super) fn reduce(&self, numbers: (u32, f64)) -> Result<Vec<f64>, Refusal> {
        let (number, parameter) = numbers;
        let reduction = Reduction::from_numbers(number, parameter).and_then(known);
        let Some(reduction) = reduction else {
            let message = format!(
                "this host has no reduction {number} of vectors with the parameter {parameter}"
            );
            return Err(Refusal::new(Status::UNSUPPORTED, message));
        };
        vectors::reduce_tensors(&self.tensors, reduction).map_err(failed)
    }

    /// Changes the tensors.
    pub(super) fn change(
        &self,
        shared: &BridgeState<'_>,
        (number, given): (u32, &[f64]),
    ) -> Result<(), Refusal> {
        let Some(change) = Change::from_numbers(number, given).and_then(known_change) else {
            let message = format!("this host has no change {number} of vectors by {given:?}");
            return Err(Refusal::new(Status::UNSUPPORTED, message));
        };
        if let vectors::Change::ScaleSlices(factors) = change
            && factors.len() != self.slice_count()
        {
            let (count, given) = (self.slice_count(), factors.len());
            let message = format!("there are {count} slices, and {given} factors for them");
            return Err(Refusal::new(Status::INVALID, message));
        }
        self.check_apart(&[])?;
        self.check_floats(shared)?;
        vectors::change_tensors(&self.tensors, change).map_err(failed)?;
        self.note_changed(shared)
    }

    /// Combines the tensors with others.
    pub(super) fn combine(
        &self,
        shared: &BridgeState<'_>,
        from: &Selection,
        (number, weight): (u32, f64),
    ) -> Result<(), Refusal> {
        let known = Combination::from_numbers(number, weight).and_then(known_combination);
        let Some(combination) = known else {
            let message = format!("this host has no combination {number} of vectors");
            return Err(Refusal::new(Status::UNSUPPORTED, message));
        };
        self.check_apart(&from.tensors)?;
        if self.tensors.len() != from.tensors.len() {
            let (onto, from) = (self.tensors.len(), from.tensors.len());
            let message = format!("{onto} tensors can't be combined with {from}");
            return Err(Refusal::new(Status::INVALID, message));
        }
        let tensors = |selection: &Selection| -> Result<Vec<Tensor>, Refusal> {
            let tensors = selection.tensors.iter();
            tensors
                .map(|(tensor, _)| tensor.contiguous().map_err(failed))
                .collect()
        };
        let (onto, from) = (tensors(self)?, tensors(from)?);
        for (one, other) in onto.iter().zip(&from) {
            if (one.dims(), one.dtype()) != (other.dims(), other.dtype()) {
                let message = format!(
                    "two tensors have different shapes, {:?} and {:?}, or types",
                    one.dims(),
                    other.dims()
                );
                return Err(Refusal::new(Status::INVALID, message));
            }
        }
        if !matches!(combination, vectors::Combination::Copy) {
            self.check_floats(shared)?;
        }
        vectors::combine_tensors(&onto, &from, combination).map_err(failed)?;
        self.note_changed(shared)
    }

    /// Refuses tensors whose elements can't be changed.
    fn check_floats(&self, shared: &BridgeState<'_>) -> Result<(), Refusal> {
        let unfit = |(tensor, _): &&(Tensor, Slices)| {
            !matches!(
                tensor.dtype(),
                candle_core::DType::F32 | candle_core::DType::F64
            )
        };
        let Some((tensor, _)) = self.tensors.iter().find(unfit) else {
            return Ok(());
        };
        let name = (0..shared.tensor_count(self.collection))
            .find(|&index| {
                let known = shared.tensor(self.collection, index);
                known.is_some_and(|known| known.id() == tensor.id())
            })
            .map(|index| shared.name_at(self.collection, index))
            .unwrap_or_default();
        let message = format!(
            "`{name}` has elements of the type {:?}, which are not changed in passes; f32 and f64 are",
            tensor.dtype()
        );
        Err(Refusal::new(Status::UNSUPPORTED, message))
    }

    /// Refuses tensors that are written to and share elements with each other, or with others that are read.
    fn check_apart(&self, read: &[(Tensor, Slices)]) -> Result<(), Refusal> {
        let range = |(tensor, _): &(Tensor, Slices)| {
            let (storage, layout) = tensor.storage_and_layout();
            let last = layout.dims().iter().zip(layout.stride());
            let last: usize = last
                .map(|(&size, &stride)| size.saturating_sub(1) * stride)
                .sum();
            let start = layout.start_offset();
            (
                std::ptr::from_ref(&*storage).addr(),
                start,
                start + last + 1,
            )
        };
        let filled = |tensors: &[(Tensor, Slices)], is_written: bool| {
            let filled = tensors.iter().filter(|(tensor, _)| tensor.elem_count() > 0);
            filled
                .map(|one| (range(one), is_written))
                .collect::<Vec<_>>()
        };
        let mut all = filled(&self.tensors, true);
        all.extend(filled(read, false));
        all.sort_unstable();
        // Of the storage being looked at: up to where written and read elements reach so far.
        let (mut current, mut written, mut read) = (0, 0, 0);
        for ((storage, start, end), is_written) in all {
            if storage != current {
                (current, written, read) = (storage, 0, 0);
            }
            if start < written || is_written && start < read {
                let message = "two of the tensors share elements, and one is written to".to_owned();
                return Err(Refusal::new(Status::INVALID, message));
            }
            let reach = if is_written { &mut written } else { &mut read };
            *reach = end.max(*reach);
        }
        Ok(())
    }

    /// Copies of what has changed follow.
    fn note_changed(&self, shared: &BridgeState<'_>) -> Result<(), Refusal> {
        let is_changed = |original: &Tensor| {
            let mut tensors = self.tensors.iter();
            tensors.any(|(tensor, _)| tensor.id() == original.id())
        };
        let copies = &shared.device.copies;
        copies
            .changed(self.collection, is_changed, shared.hook())
            .map_err(failed)
    }
}

/// A tensor on the run's device: a published one is taken there, others are there.
fn on_device(
    shared: &BridgeState<'_>,
    (collection, index): (Collection, usize),
    tensor: Tensor,
) -> Result<Tensor, Refusal> {
    let Some(device) = shared.tensors.device().filter(|_| tensor.device().is_cpu()) else {
        return Ok(tensor);
    };
    let moved = tensor.to_device(&device).map_err(failed)?;
    if collection == Collection::Published {
        shared.values.replace_tensor(index, moved.clone());
        let place = (collection, index);
        (shared.device.copies).adopt(place, tensor, moved.clone(), shared.hook());
    }
    Ok(moved)
}

#[expect(clippy::needless_pass_by_value, reason = "errors are mapped by it")]
fn failed(error: candle_core::Error) -> Refusal {
    Refusal::new(Status::ERROR, format!("the device failed: {error}"))
}

impl super::exposed::Exposed {
    /// The device of the parameters, if it is not the CPU.
    pub(super) fn device(&self) -> Option<Device> {
        let parameters = self.parameters.borrow();
        let device = parameters.first()?.1.device();
        (!device.is_cpu()).then(|| device.clone())
    }
}
