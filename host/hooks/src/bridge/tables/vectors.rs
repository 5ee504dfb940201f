//! `sconce.vectors/1`: passes over the run's tensors, on the [CPU](crate::bridge::Passes) or where they are.

use sconce_ops::kernels::region;
use sconce_plugin_api::ext::{Refusal, Vectors, VectorsAbi};

use crate::bridge::device_passes::Selection;
use crate::bridge::passes::Passes;
use crate::bridge::shared::BridgeState;

impl BridgeState<'_> {
    /// Passes on the CPU; `None` if the run's parameters are on a device.
    fn passes(&self) -> Option<Passes<'_, Self>> {
        self.tensors.device().is_none().then_some(Passes {
            host: self,
            threads: region::parts,
        })
    }
}

impl Vectors for BridgeState<'_> {
    unsafe fn reduce(
        &self,
        reduction: u32,
        number: f64,
        vectors: &VectorsAbi,
        results: &mut [f64],
    ) -> Result<usize, Refusal> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(passes) = self.passes() {
                return passes.reduce((reduction, number), vectors, results);
            }
            let selection = Selection::of(self, vectors, false)?;
            let needed = selection.slice_count();
            if let Some(results) = results.get_mut(..needed).filter(|_| needed > 0) {
                results.copy_from_slice(&selection.reduce((reduction, number))?);
            }
            Ok(needed)
        }
    }

    unsafe fn change(
        &self,
        change: u32,
        vectors: &VectorsAbi,
        numbers: &[f64],
    ) -> Result<(), Refusal> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(passes) = self.passes() {
                return passes.change(change, vectors, numbers);
            }
            Selection::of(self, vectors, true)?.change(self, (change, numbers))
        }
    }

    unsafe fn combine(
        &self,
        combination: u32,
        weight: f64,
        onto: &VectorsAbi,
        from: &VectorsAbi,
    ) -> Result<(), Refusal> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(passes) = self.passes() {
                return passes.combine((combination, weight), onto, from);
            }
            let from = Selection::of(self, from, false)?;
            Selection::of(self, onto, true)?.combine(self, &from, (combination, weight))
        }
    }
}
