//! Passes over whole collections of tensors for hooks, by the kernels of `sconce-ops`: what answers `sconce.vectors/1`.
//!
//! [`Passes`] does them over the tensors that any table for tensors lends: in the run's process its own, in a hook's process
//! the copies that it was lent.

use std::borrow::Cow;
use std::slice;

use sconce_ops::vectors::{self, Slices};
use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{
    Change, Combination, LentVectors, Reduction, Refusal, TensorAbi, Tensors, VectorsAbi,
};
use sconce_plugin_api::tensor::{DType, Tensor};

/// What an element of a pass costs, in operations: mostly its way from memory.
const EACH: usize = 8;

/// Passes over the tensors that a host lends itself.
pub(crate) struct Passes<'host, H> {
    pub(crate) host: &'host H,
    /// Number of threads for this many operations.
    pub(crate) threads: fn(usize) -> usize,
}

impl<H: Tensors> Passes<'_, H> {
    /// As `reduce` of the extension.
    ///
    /// # Safety
    ///
    /// The indices of the vectors are borrowed for the call.
    pub(crate) unsafe fn reduce(
        &self,
        (reduction, number): (u32, f64),
        vectors: &VectorsAbi,
        results: &mut [f64],
    ) -> Result<usize, Refusal> {
        let Some(reduction) = Reduction::from_numbers(reduction, number).and_then(known) else {
            return Err(unsupported(format!(
                "this host has no reduction {reduction} of vectors with the parameter {number}"
            )));
        };
        // SAFETY: guaranteed by the caller.
        let lent = unsafe { LentVectors::lend(self.host, vectors, false) }?;
        let needed = lent.slice_count();
        if needed > results.len() || needed == 0 {
            return Ok(needed);
        }
        // SAFETY: the tensors are lent for the call.
        let numbers = (lent.tensors.iter()).map(|one| unsafe { Numbers::of(one) });
        let numbers: Vec<_> = numbers.collect::<Result<_, _>>().map_err(unsupported)?;
        let threads = self.threads_for(&lent.tensors);
        let slices: Vec<Slices> = lent.tensors.iter().map(|one| slices(&lent, one)).collect();
        let mut written = 0;
        // Neighbours of the same type in one pass.
        let mut start = 0;
        for group in numbers.chunk_by(|one, other| one.is_single() == other.is_single()) {
            let slices = &slices[start..start + group.len()];
            let found = if group[0].is_single() {
                let group: Vec<_> = singles(group).zip(slices.iter().copied()).collect();
                vectors::reduce(threads, &group, reduction)
            } else {
                let group: Vec<_> = doubles(group).zip(slices.iter().copied()).collect();
                vectors::reduce(threads, &group, reduction)
            };
            results[written..written + found.len()].copy_from_slice(&found);
            written += found.len();
            start += group.len();
        }
        Ok(needed)
    }

    /// As `change` of the extension.
    ///
    /// # Safety
    ///
    /// As of [`Passes::reduce`].
    pub(crate) unsafe fn change(
        &self,
        change: u32,
        vectors: &VectorsAbi,
        given: &[f64],
    ) -> Result<(), Refusal> {
        let Some(change) = Change::from_numbers(change, given).and_then(known_change) else {
            return Err(unsupported(format!(
                "this host has no change {change} of vectors by {given:?}"
            )));
        };
        // SAFETY: guaranteed by the caller.
        let lent = unsafe { LentVectors::lend(self.host, vectors, true) }?;
        lent.check_apart(&[])?;
        let factors = match change {
            vectors::Change::ScaleSlices(factors) => Some(factors.len()),
            _ => None,
        };
        let count = lent.slice_count();
        if let Some(given) = factors.filter(|given| *given != count) {
            return Err(Refusal::invalid(format!(
                "there are {count} slices, and {given} factors for them"
            )));
        }
        for tensor in &lent.tensors {
            float_type(tensor).map_err(unsupported)?;
        }
        let threads = self.threads_for(&lent.tensors);
        let mut first = 0;
        for group in lent.tensors.chunk_by(|one, other| bits(one) == bits(other)) {
            let of_group: usize = group.iter().map(|one| lent.slices(one).0).sum();
            let change = match change {
                vectors::Change::ScaleSlices(factors) => {
                    vectors::Change::ScaleSlices(&factors[first..first + of_group])
                }
                other => other,
            };
            first += of_group;
            // SAFETY: the tensors are lent for writing, for the call, and no two share elements.
            unsafe {
                if bits(&group[0]) == 32 {
                    let mut group: Vec<_> = (group.iter())
                        .map(|one| (elements_mut::<f32>(one), slices(&lent, one)))
                        .collect();
                    vectors::change(threads, &mut group, change);
                } else {
                    let mut group: Vec<_> = (group.iter())
                        .map(|one| (elements_mut::<f64>(one), slices(&lent, one)))
                        .collect();
                    vectors::change(threads, &mut group, change);
                }
            }
        }
        Ok(())
    }

    /// As `combine` of the extension.
    ///
    /// # Safety
    ///
    /// As of [`Passes::reduce`].
    pub(crate) unsafe fn combine(
        &self,
        (combination, weight): (u32, f64),
        onto: &VectorsAbi,
        from: &VectorsAbi,
    ) -> Result<(), Refusal> {
        let known = Combination::from_numbers(combination, weight);
        let Some(combination) = known.and_then(known_combination) else {
            return Err(unsupported(format!(
                "this host has no combination {combination} of vectors"
            )));
        };
        // SAFETY: guaranteed by the caller.
        let (from, onto) = unsafe {
            let from = LentVectors::lend(self.host, from, false)?;
            (from, LentVectors::lend(self.host, onto, true)?)
        };
        onto.check_apart(&from.tensors)?;
        if onto.tensors.len() != from.tensors.len() {
            let (onto, from) = (onto.tensors.len(), from.tensors.len());
            return Err(Refusal::invalid(format!(
                "{onto} tensors can't be combined with {from}"
            )));
        }
        let count = onto.tensors.len();
        let (mut singles, mut doubles) = (Pairs::of(count), Pairs::of(0));
        let mut others = Vec::new();
        for (one, other) in onto.tensors.iter().zip(&from.tensors) {
            let kind = check_pair(one, other, combination)
                .map_err(|(status, message)| Refusal::new(status, message))?;
            // SAFETY: the tensors are lent for the call, those of `onto` for writing, and share no elements.
            unsafe {
                match kind {
                    ElementKind::Single => singles.push(one, other),
                    ElementKind::Double => doubles.push(one, other),
                    ElementKind::Other => others.push((bytes_mut(one), bytes_of(other))),
                }
            }
        }
        let threads = self.threads_for(&onto.tensors);
        vectors::combine::<f32>(threads, &mut singles.onto, &singles.from, combination);
        vectors::combine::<f64>(threads, &mut doubles.onto, &doubles.from, combination);
        for (one, other) in others {
            one.copy_from_slice(other);
        }
        Ok(())
    }

    fn threads_for(&self, tensors: &[TensorAbi]) -> usize {
        let bytes: u64 = tensors.iter().map(|tensor| tensor.byte_length).sum();
        (self.threads)(
            usize::try_from(bytes / 4)
                .unwrap_or(usize::MAX)
                .saturating_mul(EACH),
        )
    }
}

fn unsupported(message: String) -> Refusal {
    Refusal::new(Status::UNSUPPORTED, message)
}

/// The elements of a tensor that is read.
enum Numbers {
    Single(Cow<'static, [f32]>),
    Double(Cow<'static, [f64]>),
}

impl Numbers {
    /// Elements of `f32` and `f64` in place where they are contiguous, all others as copies.
    ///
    /// # Safety
    ///
    /// The tensor is lent for a call that outlives the result.
    unsafe fn of(tensor: &TensorAbi) -> Result<Numbers, String> {
        // SAFETY: guaranteed by the caller.
        let tensor = unsafe { Tensor::borrowed(*tensor) };
        let found = tensor.and_then(|tensor| match tensor.dtype() {
            Some(DType::F32) => Ok(Numbers::Single(tensor.to_contiguous::<f32>()?)),
            Some(DType::F64) => Ok(Numbers::Double(tensor.to_contiguous::<f64>()?)),
            _ => Ok(Numbers::Double(tensor.values()?.collect())),
        });
        found.map_err(|error| error.message().to_owned())
    }

    fn is_single(&self) -> bool {
        matches!(self, Numbers::Single(_))
    }
}

fn singles(numbers: &[Numbers]) -> impl Iterator<Item = &[f32]> {
    numbers.iter().filter_map(|one| match one {
        Numbers::Single(numbers) => Some(&**numbers),
        Numbers::Double(_) => None,
    })
}

fn doubles(numbers: &[Numbers]) -> impl Iterator<Item = &[f64]> {
    numbers.iter().filter_map(|one| match one {
        Numbers::Double(numbers) => Some(&**numbers),
        Numbers::Single(_) => None,
    })
}

fn slices(lent: &LentVectors, tensor: &TensorAbi) -> Slices {
    let (count, inner) = lent.slices(tensor);
    Slices::interleaved(count, inner)
}

pub(super) fn known(reduction: Reduction) -> Option<vectors::Reduction> {
    match reduction {
        Reduction::Powers(order) => Some(vectors::Reduction::Powers(order)),
        Reduction::Largest => Some(vectors::Reduction::Largest),
        Reduction::NotFinite => Some(vectors::Reduction::NotFinite),
        Reduction::NotANumber => Some(vectors::Reduction::NotANumber),
        _ => None,
    }
}

pub(super) fn known_change(change: Change<'_>) -> Option<vectors::Change<'_>> {
    match change {
        Change::Scale(factor) => Some(vectors::Change::Scale(factor)),
        Change::ScaleSlices(factors) => Some(vectors::Change::ScaleSlices(factors)),
        Change::Clamp(lower, upper) => Some(vectors::Change::Clamp(lower, upper)),
        Change::Fill(number) => Some(vectors::Change::Fill(number)),
        _ => None,
    }
}

pub(super) fn known_combination(combination: Combination) -> Option<vectors::Combination> {
    match combination {
        Combination::Add(weight) => Some(vectors::Combination::Add(weight)),
        Combination::Blend(weight) => Some(vectors::Combination::Blend(weight)),
        Combination::Multiply => Some(vectors::Combination::Multiply),
        Combination::Copy => Some(vectors::Combination::Copy),
        _ => None,
    }
}

/// Whether the elements are of `f32` or `f64` and contiguous; otherwise the reason why they are not changed.
fn float_type(tensor: &TensorAbi) -> Result<(), String> {
    // SAFETY: the tensor was lent for this call.
    let view = unsafe { Tensor::borrowed(*tensor) };
    let view = view.map_err(|error| error.message().to_owned())?;
    match view.dtype() {
        Some(DType::F32 | DType::F64) if view.is_contiguous() => Ok(()),
        Some(DType::F32 | DType::F64) => Err(format!("`{}` is not contiguous", view.name())),
        Some(other) => Err(format!(
            "`{}` has elements of the type {other:?}, which are not changed in passes; f32 and f64 are",
            view.name()
        )),
        None => Err(format!(
            "`{}` has elements of a type that this host doesn't know",
            view.name()
        )),
    }
}

/// Type of a pair's elements, by which it is combined.
enum ElementKind {
    Single,
    Double,
    /// Any other, which is copied alone.
    Other,
}

/// Checks that two tensors can be combined; returns the type of their elements.
fn check_pair(
    onto: &TensorAbi,
    from: &TensorAbi,
    combination: vectors::Combination,
) -> Result<ElementKind, (Status, String)> {
    let types = |tensor: &TensorAbi| (tensor.type_code, tensor.type_bits);
    if (LentVectors::shape(onto), types(onto)) != (LentVectors::shape(from), types(from)) {
        return Err(different(onto, from));
    }
    let unsupported = |message| (Status::UNSUPPORTED, message);
    let kind = match DType::from_codes(onto.type_code, onto.type_bits) {
        Some(DType::F32) => ElementKind::Single,
        Some(DType::F64) => ElementKind::Double,
        _ if matches!(combination, vectors::Combination::Copy) => ElementKind::Other,
        _ => return Err(unsupported(float_type(onto).err().unwrap_or_default())),
    };
    for tensor in [onto, from] {
        if !is_contiguous(tensor) {
            // SAFETY: it was lent for this call, and so was its name.
            let name = unsafe { tensor.name.read() }.unwrap_or_default();
            return Err(unsupported(format!("`{name}` is not contiguous")));
        }
    }
    Ok(kind)
}

/// The refusal of two tensors of different shapes or types.
#[cold]
fn different(onto: &TensorAbi, from: &TensorAbi) -> (Status, String) {
    // SAFETY: both were lent for this call, and so were their names.
    let names = unsafe { [onto.name.read(), from.name.read()] };
    let [one, other] = names.map(Option::unwrap_or_default);
    let message = format!(
        "`{one}` and `{other}` have different shapes, {:?} and {:?}, or types",
        LentVectors::shape(onto),
        LentVectors::shape(from)
    );
    (Status::INVALID, message)
}

/// Whether a tensor's elements are adjacent in memory, in row-major order, and aligned.
fn is_contiguous(tensor: &TensorAbi) -> bool {
    let shape = LentVectors::shape(tensor);
    if tensor.strides.is_null() {
        return shape.is_empty();
    }
    // SAFETY: a lent tensor has as many strides as sizes, which live as long as the call.
    let strides = unsafe { slice::from_raw_parts(tensor.strides, shape.len()) };
    let mut expected: i64 = 1;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        if size != 1 && stride != expected {
            return false;
        }
        expected = expected.saturating_mul(size);
    }
    let bytes = u64::from(tensor.type_bits / 8).saturating_mul(expected.unsigned_abs());
    let align = usize::from(tensor.type_bits / 8).max(1);
    bytes == tensor.byte_length && tensor.data.addr().is_multiple_of(align)
}

fn bits(tensor: &TensorAbi) -> u8 {
    tensor.type_bits
}

/// The elements of a contiguous tensor of this type, for writing.
///
/// # Safety
///
/// The tensor was lent for writing, for a call that outlives the result, and shares no elements with others in use.
unsafe fn elements_mut<'a, T>(tensor: &TensorAbi) -> &'a mut [T] {
    let count = tensor.byte_length as usize / size_of::<T>();
    if count == 0 {
        return &mut [];
    }
    // SAFETY: the host's tensors, and copies of them, are aligned for their elements; the rest is the caller's promise.
    unsafe { slice::from_raw_parts_mut(tensor.data.cast(), count) }
}

/// The bytes of a contiguous tensor, for writing.
///
/// # Safety
///
/// As of [`elements_mut`].
unsafe fn bytes_mut<'a>(tensor: &TensorAbi) -> &'a mut [u8] {
    // SAFETY: guaranteed by the caller.
    unsafe { elements_mut(tensor) }
}

/// The bytes of a contiguous tensor.
///
/// # Safety
///
/// The tensor was lent for a call that outlives the result, and nothing writes to it meanwhile.
unsafe fn bytes_of<'a>(tensor: &TensorAbi) -> &'a [u8] {
    if tensor.byte_length == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { slice::from_raw_parts(tensor.data.cast(), tensor.byte_length as usize) }
}

/// The elements of pairs of contiguous tensors of one type and the same shapes.
struct Pairs<'a, T> {
    onto: Vec<&'a mut [T]>,
    from: Vec<&'a [T]>,
}

impl<T> Pairs<'_, T> {
    /// None yet, with room for this many.
    fn of(count: usize) -> Self {
        Pairs {
            onto: Vec::with_capacity(count),
            from: Vec::with_capacity(count),
        }
    }

    /// Adds a pair.
    ///
    /// # Safety
    ///
    /// Both were lent for a call that outlives this, `onto` for writing, and it shares no elements with other tensors in use.
    unsafe fn push(&mut self, onto: &TensorAbi, from: &TensorAbi) {
        let count = from.byte_length as usize / size_of::<T>();
        let others = if count == 0 {
            &[]
        } else {
            // SAFETY: guaranteed by the caller.
            unsafe { slice::from_raw_parts(from.data.cast(), count) }
        };
        // SAFETY: guaranteed by the caller.
        self.onto.push(unsafe { elements_mut(onto) });
        self.from.push(others);
    }
}

#[cfg(test)]
mod tests;
