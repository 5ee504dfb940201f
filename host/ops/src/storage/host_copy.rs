//! Copies between tensors on any device and tensors in host memory, into memory that is there already.
//!
//! candle's `to_device` allocates for every copy. Here the elements of a tensor are copied into those of another: what is
//! copied again and again, as tensors that hooks look at, needs no allocation once the buffers are there.

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor, bail};

/// Runs `$body` with `$into` and `$from` as the elements of two storages of the same type.
macro_rules! of_same_type {
    ($into:expr, $from:expr, |$a:ident, $b:ident| $body:expr) => {
        match ($into, $from) {
            (CpuStorage::F32($a), CpuStorage::F32($b)) => $body,
            (CpuStorage::F64($a), CpuStorage::F64($b)) => $body,
            (CpuStorage::F16($a), CpuStorage::F16($b)) => $body,
            (CpuStorage::BF16($a), CpuStorage::BF16($b)) => $body,
            (CpuStorage::I64($a), CpuStorage::I64($b)) => $body,
            (CpuStorage::U32($a), CpuStorage::U32($b)) => $body,
            (CpuStorage::U8($a), CpuStorage::U8($b)) => $body,
            _ => bail!("tensors of different types, or of a type that is not copied"),
        }
    };
}

/// Copies the elements of a tensor on any device into a contiguous one in host memory, of the same shape and type.
///
/// Waits until they are there.
///
/// # Errors
///
/// If shapes or types differ, `into` is not contiguous in host memory, they share elements, or the device fails.
pub fn read(from: &Tensor, into: &Tensor) -> Result<()> {
    check_pair(into, from)?;
    let from = from.contiguous()?;
    into.inplace_op1(&Read { from: &from })
}

/// Copies the elements of a contiguous tensor in host memory into a contiguous one on any device, of the same shape and
/// type.
///
/// `from` may be changed as soon as this returns.
///
/// # Errors
///
/// If shapes or types differ, one is not contiguous, they share elements, or the device fails.
pub fn write(onto: &Tensor, from: &Tensor) -> Result<()> {
    check_pair(onto, from)?;
    onto.inplace_op1(&Write { from })
}

/// Exchanges the elements of two contiguous tensors of the same shape and type, wherever each is.
///
/// # Errors
///
/// If shapes or types differ, one is not contiguous, they share elements, or a device fails.
pub fn exchange(left: &Tensor, right: &Tensor) -> Result<()> {
    check_pair(left, right)?;
    if left.device().is_cpu() && right.device().is_cpu() {
        return left.inplace_op1(&Swap { other: right });
    }
    let before = left.copy()?;
    overwrite(left, right)?;
    overwrite(right, &before)
}

/// Copies the elements of a contiguous tensor into another one of the same shape and type, wherever each is.
///
/// # Errors
///
/// As of [`exchange`].
pub fn overwrite(onto: &Tensor, from: &Tensor) -> Result<()> {
    check_pair(onto, from)?;
    if from.device().is_cpu() {
        return write(onto, from);
    }
    if onto.device().is_cpu() {
        return read(from, onto);
    }
    // Within a device, or between two.
    let from = from.to_device(onto.device())?;
    if onto.elem_count() == 0 {
        return Ok(());
    }
    onto.flatten_all()?.slice_set(&from.flatten_all()?, 0, 0)
}

fn check_pair(onto: &Tensor, from: &Tensor) -> Result<()> {
    if (onto.dims(), onto.dtype()) != (from.dims(), from.dtype()) {
        bail!(
            "a tensor of {:?} and shape {:?} can't be copied into one of {:?} and shape {:?}",
            from.dtype(),
            from.dims(),
            onto.dtype(),
            onto.dims()
        );
    }
    if !onto.is_contiguous() {
        bail!("a tensor that is copied into is not contiguous");
    }
    if share_memory(onto, from) {
        bail!("a tensor can't be copied into one that shares its elements");
    }
    Ok(())
}

/// Identity of a tensor's storage: tensors with the same one may share elements.
pub fn storage_address(tensor: &Tensor) -> usize {
    std::ptr::from_ref(&*tensor.storage_and_layout().0).addr()
}

/// Whether two tensors have one storage.
fn share_memory(one: &Tensor, other: &Tensor) -> bool {
    storage_address(one) == storage_address(other)
}

/// The elements that a layout selects, if they are contiguous.
fn part<'a, T>(elements: &'a [T], layout: &Layout) -> Result<&'a [T]> {
    let range = layout.contiguous_offsets();
    match range.and_then(|(start, end)| elements.get(start..end)) {
        Some(part) => Ok(part),
        None => bail!("a copied tensor is not contiguous"),
    }
}

fn part_mut<'a, T>(elements: &'a mut [T], layout: &Layout) -> Result<&'a mut [T]> {
    let range = layout.contiguous_offsets();
    match range.and_then(|(start, end)| elements.get_mut(start..end)) {
        Some(part) => Ok(part),
        None => bail!("a tensor that is copied into is not contiguous"),
    }
}

/// Host memory receives the elements of a contiguous tensor on any device.
struct Read<'a> {
    from: &'a Tensor,
}

impl InplaceOp1 for Read<'_> {
    fn name(&self) -> &'static str {
        "copy-to-host"
    }

    fn cpu_fwd(&self, into: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (guard, from_layout) = self.from.storage_and_layout();
        match &*guard {
            Storage::Cpu(from) => of_same_type!(into, from, |into, from| {
                part_mut(into, layout)?.copy_from_slice(part(from, from_layout)?);
                Ok(())
            }),
            #[cfg(feature = "cuda")]
            Storage::Cuda(from) => cuda::read(from, from_layout, into, layout),
            _ => bail!("tensors on this kind of device are not copied"),
        }
    }
}

/// A tensor on any device receives elements from host memory.
struct Write<'a> {
    from: &'a Tensor,
}

impl InplaceOp1 for Write<'_> {
    fn name(&self) -> &'static str {
        "copy-to-device"
    }

    fn cpu_fwd(&self, onto: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (guard, from_layout) = self.from.storage_and_layout();
        let Storage::Cpu(from) = &*guard else {
            bail!("a tensor that is copied to a device is not in host memory");
        };
        of_same_type!(onto, from, |onto, from| {
            part_mut(onto, layout)?.copy_from_slice(part(from, from_layout)?);
            Ok(())
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, onto: &mut candle_core::CudaStorage, layout: &Layout) -> Result<()> {
        let (guard, from_layout) = self.from.storage_and_layout();
        let Storage::Cpu(from) = &*guard else {
            bail!("a tensor that is copied to a device is not in host memory");
        };
        cuda::write(from, from_layout, onto, layout)
    }
}

/// Exchanges the elements of two tensors in host memory.
struct Swap<'a> {
    other: &'a Tensor,
}

impl InplaceOp1 for Swap<'_> {
    fn name(&self) -> &'static str {
        "exchange"
    }

    fn cpu_fwd(&self, left: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let left = std::cell::RefCell::new((left, layout));
        self.other
            .inplace_op1(&With(|right: &mut CpuStorage, right_layout: &Layout| {
                let (left, left_layout) = &mut *left.borrow_mut();
                of_same_type!(&mut **left, right, |left, right| {
                    part_mut(left, left_layout)?.swap_with_slice(part_mut(right, right_layout)?);
                    Ok(())
                })
            }))
    }
}

/// A closure as an in-place operation.
struct With<F>(F);

impl<F: Fn(&mut CpuStorage, &Layout) -> Result<()>> InplaceOp1 for With<F> {
    fn name(&self) -> &'static str {
        "exchange"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        (self.0)(storage, layout)
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    //! The copies of a device of NVIDIA, on candle's stream.

    use candle_core::cuda_backend::{CudaStorage, CudaStorageSlice};
    use candle_core::{CpuStorage, Layout, Result, bail};

    use super::{part, part_mut};

    macro_rules! on_device {
        ($device:expr, $host:expr, |$d:ident, $h:ident| $body:expr) => {
            match ($device, $host) {
                (CudaStorageSlice::F32($d), CpuStorage::F32($h)) => $body,
                (CudaStorageSlice::F64($d), CpuStorage::F64($h)) => $body,
                (CudaStorageSlice::F16($d), CpuStorage::F16($h)) => $body,
                (CudaStorageSlice::BF16($d), CpuStorage::BF16($h)) => $body,
                (CudaStorageSlice::I64($d), CpuStorage::I64($h)) => $body,
                (CudaStorageSlice::U32($d), CpuStorage::U32($h)) => $body,
                (CudaStorageSlice::U8($d), CpuStorage::U8($h)) => $body,
                _ => bail!("tensors of different types, or of a type that is not copied"),
            }
        };
    }

    pub(super) fn read(
        from: &CudaStorage,
        from_layout: &Layout,
        into: &mut CpuStorage,
        layout: &Layout,
    ) -> Result<()> {
        let Some((start, end)) = from_layout.contiguous_offsets() else {
            bail!("a copied tensor is not contiguous");
        };
        on_device!(&from.slice, into, |from_slice, into| {
            let into = part_mut(into, layout)?;
            if start < end {
                from.device
                    .cuda_stream()
                    .memcpy_dtoh(&from_slice.slice(start..end), into)
                    .map_err(candle_core::Error::wrap)?;
            }
            Ok::<(), candle_core::Error>(())
        })?;
        // Page-locked memory would be written to after the call has returned.
        from.device
            .cuda_stream()
            .synchronize()
            .map_err(candle_core::Error::wrap)
    }

    pub(super) fn write(
        from: &CpuStorage,
        from_layout: &Layout,
        onto: &mut CudaStorage,
        layout: &Layout,
    ) -> Result<()> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("a tensor that is copied into is not contiguous");
        };
        let device = onto.device.clone();
        on_device!(&mut onto.slice, from, |onto, from| {
            let from = part(from, from_layout)?;
            if start < end {
                device.memcpy_htod(from, &mut onto.slice_mut(start..end))?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    fn counted(dtype: DType) -> Result<Tensor> {
        Tensor::arange(0_f32, 24.0, &Device::Cpu)?
            .reshape((4, 6))?
            .to_dtype(dtype)
    }

    fn values(tensor: &Tensor) -> Result<Vec<f64>> {
        tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
    }

    #[test]
    fn elements_of_every_type_are_copied_both_ways_and_exchanged() -> Result<()> {
        for dtype in [
            DType::U8,
            DType::U32,
            DType::I64,
            DType::F16,
            DType::BF16,
            DType::F32,
            DType::F64,
        ] {
            let all = counted(dtype)?;
            // The whole tensor, rows in its middle, and a transposed one.
            for from in [all.clone(), all.narrow(0, 1, 2)?, all.t()?] {
                let buffer = Tensor::zeros(from.dims(), dtype, &Device::Cpu)?;
                read(&from, &buffer)?;
                assert_eq!(values(&buffer)?, values(&from)?, "{dtype:?}");
                let onto = Tensor::ones(from.dims(), dtype, &Device::Cpu)?;
                write(&onto, &buffer)?;
                assert_eq!(values(&onto)?, values(&from)?, "{dtype:?}");
                let ones = Tensor::ones(from.dims(), dtype, &Device::Cpu)?;
                exchange(&onto, &ones)?;
                assert_eq!(values(&ones)?, values(&from)?, "{dtype:?}");
                assert!(values(&onto)?.iter().all(|one| (one - 1.0).abs() < 1e-9));
            }
        }
        Ok(())
    }

    #[test]
    fn what_can_t_be_copied_is_refused() -> Result<()> {
        let all = counted(DType::F32)?;
        let narrow = Tensor::zeros((4, 5), DType::F32, &Device::Cpu)?;
        let message = read(&all, &narrow).expect_err("another shape").to_string();
        assert!(
            message.contains("[4, 6]") && message.contains("[4, 5]"),
            "{message}"
        );
        let double = Tensor::zeros((4, 6), DType::F64, &Device::Cpu)?;
        assert!(write(&double, &all).is_err());
        assert!(read(&all, &all).is_err(), "the same elements");
        let turned = Tensor::zeros((6, 4), DType::F32, &Device::Cpu)?.t()?;
        assert!(write(&turned, &all).is_err());
        Ok(())
    }
}
