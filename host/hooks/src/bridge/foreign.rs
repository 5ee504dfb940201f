//! Tensors of a loop that is not candle's, lent to hooks where they lie.
//!
//! **States.** A loop shows candle's tensors or its own, never both: with the first parameter of its own, parameters, gradients and
//! batches are looked for here.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use sconce_plugin_api::abi::TextAbi;
use sconce_plugin_api::ext::{Collection, TensorAbi};

use super::names::{FIXED, INDICES_AT, MODULE, NextName, index_of};

/// A tensor in the loop's memory.
#[derive(Clone, Debug)]
pub struct ForeignTensor {
    data: *mut c_void,
    byte_length: u64,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    type_code: u8,
    type_bits: u8,
}

impl ForeignTensor {
    /// A tensor of this shape, whose elements lie in memory as `strides` say, counted in elements; its type is given by `DLPack`'s
    /// code (0 signed, 1 unsigned, 2 float, 4 bfloat) and the bits of an element.
    ///
    /// # Errors
    ///
    /// If shape and strides don't go together, or exceed what memory can hold.
    ///
    /// # Safety
    ///
    /// While the tensor is shown, `data` must lead to its first element in this process's memory, and all its elements must be
    /// there, for reading and writing by one thread at a time.
    pub unsafe fn new(
        data: *mut c_void,
        shape: &[i64],
        strides: &[i64],
        (type_code, type_bits): (u8, u8),
    ) -> Result<ForeignTensor, String> {
        if shape.len() != strides.len() {
            return Err(format!(
                "{} sizes and {} strides",
                shape.len(),
                strides.len()
            ));
        }
        let reach = reach(shape, strides)
            .and_then(|elements| elements.checked_mul(u64::from(type_bits) / 8))
            .ok_or_else(|| {
                format!("the shape {shape:?} with the strides {strides:?} is not one of memory")
            })?;
        if data.is_null() && reach > 0 {
            return Err("a null pointer".to_owned());
        }
        Ok(ForeignTensor {
            data,
            byte_length: reach,
            shape: shape.into(),
            strides: strides.into(),
            type_code,
            type_bits,
        })
    }

    fn lend(&self, data: *mut c_void, name: TextAbi, flags: u64) -> TensorAbi {
        TensorAbi {
            data,
            byte_length: self.byte_length,
            shape: self.shape.as_ptr(),
            strides: self.strides.as_ptr(),
            name,
            flags,
            dimensions: u32::try_from(self.shape.len()).unwrap_or(0),
            device_type: 1,
            device_id: 0,
            type_code: self.type_code,
            type_bits: self.type_bits,
            type_lanes: 1,
        }
    }
}

/// Number of elements from the first one in memory to the last, both included; `None` if there is no such memory.
fn reach(shape: &[i64], strides: &[i64]) -> Option<u64> {
    let mut last: i64 = 0;
    for (&size, &stride) in shape.iter().zip(strides) {
        if size < 0 || stride < 0 {
            return None;
        }
        if size == 0 {
            return Some(0);
        }
        last = last.checked_add((size - 1).checked_mul(stride)?)?;
    }
    u64::try_from(last).ok()?.checked_add(1)
}

/// A parameter or buffer in the loop's memory.
#[derive(Clone, Debug)]
pub struct ForeignParameter {
    /// Its name, such as `fc1.weight`.
    pub name: Box<str>,
    /// Where it is.
    pub tensor: ForeignTensor,
    /// Whether it is part of the model's state but not learned from gradients.
    pub is_buffer: bool,
}

/// What a loop that is not candle's shows of its tensors.
#[derive(Debug, Default)]
pub struct ForeignTensors {
    parameters: RefCell<Vec<ForeignParameter>>,
    next_name: NextName,
    /// At the parameters' indices; null where there is none. Empty outside of the points that show them.
    gradients: RefCell<Vec<*mut c_void>>,
    batch: RefCell<Vec<(Cow<'static, str>, Option<ForeignTensor>)>>,
    /// Input and output of the module whose hooks are called.
    module: RefCell<[Option<ForeignTensor>; 2]>,
    /// Whether a parameter has been lent for writing.
    is_written: Cell<bool>,
}

impl ForeignTensors {
    /// Shows the model's parameters, in the place of all shown before.
    pub fn set_parameters(&self, parameters: Vec<ForeignParameter>) {
        *self.parameters.borrow_mut() = parameters;
    }

    /// Shows gradients at the parameters' indices, each laid out in memory as its parameter; null for none.
    ///
    /// # Safety
    ///
    /// As of [`ForeignTensor::new`], until they are shown no longer.
    pub unsafe fn set_gradients(&self, gradients: &[*mut c_void]) {
        let mut shown = self.gradients.borrow_mut();
        shown.clear();
        shown.extend_from_slice(gradients);
    }

    /// Shows gradients no longer.
    pub fn clear_gradients(&self) {
        self.gradients.borrow_mut().clear();
    }

    /// Shows a tensor of the batch; `inputs`, `targets` and `outputs` are those that hooks expect.
    pub fn show(&self, name: Cow<'static, str>, tensor: ForeignTensor) {
        let mut batch = self.batch.borrow_mut();
        if batch.is_empty() {
            batch.extend(FIXED.map(|name| (Cow::Borrowed(name), None)));
        }
        match batch.iter_mut().find(|(known, _)| *known == name) {
            Some((_, place)) => *place = Some(tensor),
            None => batch.push((name, Some(tensor))),
        }
    }

    /// Shows a module's input and output, in the place of those before.
    pub fn set_module(&self, tensors: [Option<ForeignTensor>; 2]) {
        *self.module.borrow_mut() = tensors;
    }

    /// Shows the batch's tensors no longer.
    pub fn clear_batch(&self) {
        self.batch.borrow_mut().clear();
    }

    /// Whether a parameter has been lent for writing since this was last asked: a library that watches for changes has to be told.
    pub fn take_written(&self) -> bool {
        self.is_written.take()
    }

    /// Number of parameters and buffers.
    pub fn len(&self) -> usize {
        self.parameters.borrow().len()
    }

    /// Whether the loop's tensors are candle's.
    pub fn is_empty(&self) -> bool {
        self.parameters.borrow().is_empty()
    }

    /// Whether tensors of a collection are here, if they are anywhere.
    pub(super) fn has(&self, collection: Collection) -> bool {
        let is_of_loop = matches!(
            collection,
            Collection::Parameters | Collection::Gradients | Collection::Batch | Collection::Module
        );
        is_of_loop && !self.is_empty()
    }

    pub(super) fn count(&self, collection: Collection) -> usize {
        match collection {
            Collection::Parameters => self.len(),
            Collection::Gradients => self.gradients.borrow().len(),
            Collection::Module => MODULE.len(),
            _ => self.batch.borrow().len(),
        }
    }

    /// The name at an index; it does not move while the tensor is shown.
    pub(super) fn name(&self, collection: Collection, index: usize) -> Option<TextAbi> {
        if collection == Collection::Batch {
            let batch = self.batch.borrow();
            return batch.get(index).map(|(name, _)| TextAbi::new(name));
        }
        if collection == Collection::Module {
            return MODULE.get(index).map(|name| TextAbi::new(name));
        }
        let parameters = self.parameters.borrow();
        parameters.get(index).map(|entry| TextAbi::new(&entry.name))
    }

    pub(super) fn index(&self, collection: Collection, name: &str) -> Result<usize, String> {
        if collection == Collection::Batch {
            let fixed = FIXED.iter().position(|known| *known == name);
            let batch = self.batch.borrow();
            let names = || batch.iter().map(|(name, _)| &**name);
            return fixed.map_or_else(|| index_of("tensor of the batch", name, names), Ok);
        }
        if collection == Collection::Module {
            return index_of("tensor of a module", name, || MODULE.into_iter());
        }
        let parameters = self.parameters.borrow();
        let at = |index: usize| parameters.get(index).map(|entry| &*entry.name);
        self.next_name.index_of("parameter", name, at, || {
            parameters.iter().map(|entry| &*entry.name)
        })
    }

    pub(super) fn is_buffer(&self, index: usize) -> bool {
        let parameters = self.parameters.borrow();
        parameters.get(index).is_some_and(|entry| entry.is_buffer)
    }

    /// Lends a tensor; `None` if there is none at this index.
    pub(super) fn lend(
        &self,
        collection: Collection,
        index: usize,
        is_writable: bool,
    ) -> Option<TensorAbi> {
        let mut flags = if is_writable { TensorAbi::WRITABLE } else { 0 };
        let name = self.name(collection, index)?;
        match collection {
            Collection::Parameters => {
                let parameters = self.parameters.borrow();
                let entry = parameters.get(index)?;
                if is_writable {
                    self.is_written.set(true);
                }
                if entry.is_buffer {
                    flags |= TensorAbi::BUFFER;
                }
                Some(entry.tensor.lend(entry.tensor.data, name, flags))
            }
            Collection::Gradients => {
                let gradients = self.gradients.borrow();
                let data = gradients.get(index).filter(|data| !data.is_null())?;
                let parameters = self.parameters.borrow();
                Some(parameters.get(index)?.tensor.lend(*data, name, flags))
            }
            Collection::Module => {
                let module = self.module.borrow();
                let tensor = module.get(index)?.as_ref()?;
                Some(tensor.lend(tensor.data, name, flags))
            }
            _ if index == INDICES_AT => None,
            _ => {
                let batch = self.batch.borrow();
                let tensor = batch.get(index)?.1.as_ref()?;
                Some(tensor.lend(tensor.data, name, flags))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(
        numbers: &mut [f32],
        shape: &[i64],
        strides: &[i64],
    ) -> Result<ForeignTensor, String> {
        // SAFETY: the numbers outlive the tensor in these tests.
        unsafe { ForeignTensor::new(numbers.as_mut_ptr().cast(), shape, strides, (2, 32)) }
    }

    #[test]
    fn what_is_not_memory_is_refused() {
        let mut numbers = [0.0; 6];
        let good = tensor(&mut numbers, &[2, 3], &[3, 1]).expect("a tensor");
        assert_eq!(good.byte_length, 24);
        for (shape, strides) in [
            (&[2_i64, -3][..], &[3_i64, 1][..]),
            (&[2, 3], &[-3, 1]),
            (&[2], &[3, 1]),
            (&[i64::MAX, 2], &[i64::MAX, 1]),
        ] {
            assert!(tensor(&mut numbers, shape, strides).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn gradients_lie_as_their_parameters_and_may_be_missing() {
        let mut numbers = [1.0_f32; 4];
        let shown = ForeignTensors::default();
        let entry = |name: &str, tensor| ForeignParameter {
            name: name.into(),
            tensor,
            is_buffer: false,
        };
        let first = tensor(&mut numbers, &[2, 2], &[2, 1]).expect("a tensor");
        shown.set_parameters(vec![entry("a", first.clone()), entry("b", first)]);
        let mut gradient = [2.0_f32; 4];
        // SAFETY: the gradient outlives the test's use of it.
        unsafe { shown.set_gradients(&[std::ptr::null_mut(), gradient.as_mut_ptr().cast()]) };
        assert!(shown.lend(Collection::Gradients, 0, true).is_none());
        let lent = shown.lend(Collection::Gradients, 1, true).expect("lent");
        assert_eq!((lent.byte_length, lent.dimensions), (16, 2));
        shown.clear_gradients();
        assert_eq!(shown.count(Collection::Gradients), 0);
        assert!(shown.index(Collection::Parameters, "c").is_err());
        let at = |name| shown.index(Collection::Parameters, name).ok();
        // In order, out of order, and after a name that there is not.
        let found = ["a", "b", "b", "a", "c", "b"].map(at);
        assert_eq!(found, [Some(0), Some(1), Some(1), Some(0), None, Some(1)]);
    }
}
