//! Passes over tensors of a host of the test's own.

use std::ptr;

use sconce_plugin_api::abi::TextAbi;

use super::*;

/// The tensors of a host of the test's own. Empty slots are `None`.
struct Collection(Vec<Option<TensorAbi>>);

impl Tensors for Collection {
    fn count(&self, _collection: u32) -> usize {
        self.0.len()
    }

    fn at(&self, _collection: u32, index: usize, writable: bool) -> Result<TensorAbi, Refusal> {
        match self.0.get(index).copied().flatten() {
            Some(found) if writable && found.flags & TensorAbi::WRITABLE == 0 => {
                let message = "it can't be changed here";
                Err(Refusal::new(Status::NOT_LEGAL_HERE, message))
            }
            found => found.ok_or(Refusal::NOT_FOUND),
        }
    }

    fn find(&self, _collection: u32, _name: &str) -> Result<usize, Refusal> {
        Err(Refusal::NOT_FOUND)
    }
}

impl Collection {
    fn passes(&self) -> Passes<'_, Collection> {
        Passes {
            host: self,
            threads: |_| 2,
        }
    }
}

fn status_of<T>(answer: Result<T, Refusal>) -> (u32, String) {
    answer.map_or_else(
        |refusal| (refusal.status.0, refusal.message),
        |_| (OK, String::new()),
    )
}

/// A writable tensor with these elements, shape and strides.
fn tensor<T>(
    elements: &mut [T],
    dtype: DType,
    shape: &'static [i64],
    strides: &'static [i64],
) -> TensorAbi {
    let (type_code, type_bits) = dtype.codes();
    TensorAbi {
        data: elements.as_mut_ptr().cast(),
        byte_length: size_of_val(elements) as u64,
        shape: shape.as_ptr(),
        strides: strides.as_ptr(),
        name: TextAbi::new("w"),
        flags: TensorAbi::WRITABLE,
        dimensions: shape.len() as u32,
        type_code,
        type_bits,
        ..TensorAbi::EMPTY
    }
}

fn all(axis: u32) -> VectorsAbi {
    VectorsAbi {
        indices: ptr::null(),
        count: 0,
        collection: 0,
        axis,
    }
}

fn chosen(indices: &[usize]) -> VectorsAbi {
    VectorsAbi {
        indices: indices.as_ptr(),
        count: indices.len(),
        ..all(VectorsAbi::WHOLE)
    }
}

/// Status, results and message of a reduction with room for this many.
fn reduced(
    tensors: &Collection,
    reduction: Reduction,
    vectors: VectorsAbi,
    capacity: usize,
) -> (u32, usize, Vec<f64>) {
    let mut results = vec![-1.0; capacity];
    // SAFETY: the indices are borrowed for the call.
    let answer = unsafe { (tensors.passes()).reduce(reduction.numbers(), &vectors, &mut results) };
    let needed = answer.clone().unwrap_or(0);
    (status_of(answer).0, needed, results)
}

fn changed(tensors: &Collection, change: Change<'_>, vectors: VectorsAbi) -> (u32, String) {
    status_of(change.send(|number, numbers| {
        // SAFETY: the indices are borrowed for the call.
        unsafe { (tensors.passes()).change(number, &vectors, numbers) }
    }))
}

fn combined(
    tensors: &Collection,
    combination: Combination,
    onto: &[usize],
    from: &[usize],
) -> (u32, String) {
    let (onto, from) = (chosen(onto), chosen(from));
    // SAFETY: the indices are borrowed for the call.
    status_of(unsafe { (tensors.passes()).combine(combination.numbers(), &onto, &from) })
}

const OK: u32 = Status::OK.0;

#[test]
fn tensors_of_several_types_are_reduced_in_their_order() {
    let mut single = [1.0_f32, -2.0, 3.0, -4.0, 5.0, -6.0];
    let mut double = [0.5_f64, f64::NAN];
    let mut whole = [7_i64, -8];
    let lent = Collection(vec![
        Some(tensor(&mut single, DType::F32, &[2, 3], &[3, 1])),
        None,
        Some(tensor(&mut double, DType::F64, &[2], &[1])),
        Some(tensor(&mut whole, DType::I64, &[2], &[1])),
        // The first, transposed: not contiguous.
        Some(tensor(&mut single, DType::F32, &[3, 2], &[1, 3])),
    ]);
    let squares = Reduction::Powers(2.0);
    let (status, needed, found) = reduced(&lent, squares, all(VectorsAbi::WHOLE), 4);
    assert_eq!((status, needed), (OK, 4));
    assert_eq!((found[0], found[2], found[3]), (91.0, 113.0, 91.0));
    assert!(found[1].is_nan());
    let bad = reduced(&lent, Reduction::NotANumber, all(VectorsAbi::WHOLE), 4);
    assert_eq!(bad.2, [0.0, 1.0, 0.0, 0.0]);
    // Rows, and elements of what has one dimension.
    let (_, needed, found) = reduced(&lent, Reduction::Largest, all(0), 9);
    assert_eq!((needed, &found[..3]), (9, &[3.0, 6.0, 0.5][..]));
    assert_eq!(found[4..], [7.0, 8.0, 4.0, 5.0, 6.0]);
    let (_, needed, found) = reduced(&lent, squares, all(1), 3);
    assert_eq!(
        (needed, found),
        (7, vec![-1.0; 3]),
        "no room, so nothing is written"
    );
    let (status, ..) = reduced(&lent, squares, chosen(&[0, 1]), 4);
    assert_eq!(status, Status::NOT_FOUND.0);
    let (status, ..) = reduced(&lent, Reduction::Powers(-1.0), all(0), 9);
    assert_eq!(status, Status::UNSUPPORTED.0);
}

#[test]
fn all_tensors_are_changed_or_none() {
    let (mut single, mut double, mut whole) = ([1.0_f32, -2.0], [3.0_f64, -4.0, 5.0], [1_i64, 2]);
    let lent = Collection(vec![
        Some(tensor(&mut single, DType::F32, &[2], &[1])),
        Some(tensor(&mut double, DType::F64, &[3], &[1])),
        Some(tensor(&mut whole, DType::I64, &[2], &[1])),
        Some(tensor(&mut single[1..], DType::F32, &[1], &[1])),
        None,
    ]);
    assert_eq!(changed(&lent, Change::Scale(2.0), chosen(&[0, 1])).0, OK);
    assert_eq!((single, double), ([2.0, -4.0], [6.0, -8.0, 10.0]));
    let sliced = VectorsAbi {
        axis: 0,
        ..chosen(&[0, 1])
    };
    let factors = [0.5, 1.0, 2.0, 0.0, -1.0];
    assert_eq!(changed(&lent, Change::ScaleSlices(&factors), sliced).0, OK);
    assert_eq!((single, double), ([1.0, -4.0], [12.0, 0.0, -10.0]));
    assert_eq!(
        changed(&lent, Change::Clamp(-1.0, 2.0), chosen(&[1, 0])).0,
        OK
    );
    assert_eq!((single, double), ([1.0, -1.0], [2.0, 0.0, -1.0]));
    for (change, vectors, status, part) in [
        (
            Change::Scale(9.0),
            chosen(&[0, 2]),
            Status::UNSUPPORTED,
            "the type I64",
        ),
        (
            Change::Scale(9.0),
            chosen(&[0, 3]),
            Status::INVALID,
            "share elements",
        ),
        (
            Change::Scale(9.0),
            chosen(&[1, 1]),
            Status::INVALID,
            "share elements",
        ),
        (Change::Scale(9.0), chosen(&[0, 4]), Status::NOT_FOUND, ""),
        (
            Change::ScaleSlices(&factors[1..]),
            sliced,
            Status::INVALID,
            "there are 5 slices, and 4 factors",
        ),
        (
            Change::Clamp(1.0, 0.0),
            chosen(&[0]),
            Status::UNSUPPORTED,
            "no change 2 of vectors by [1.0, 0.0]",
        ),
    ] {
        let (found, message) = changed(&lent, change, vectors);
        assert_eq!(found, status.0, "{change:?}: {message}");
        assert!(message.contains(part), "{message}");
        assert_eq!(
            (single, double),
            ([1.0, -1.0], [2.0, 0.0, -1.0]),
            "{change:?}"
        );
    }
}

#[test]
fn pairs_of_the_same_shape_are_combined_or_none() {
    let (mut single, mut other) = ([1.0_f32, -2.0], [3.0_f32, 5.0]);
    let (mut whole, mut others, mut column) = ([1_i64, 2], [7_i64, 8], [1.0_f32, 1.0]);
    let mut numbers = [0.0_f32; 2];
    let fixed = TensorAbi {
        flags: 0,
        ..tensor(&mut numbers, DType::F32, &[2], &[1])
    };
    let lent = Collection(vec![
        Some(tensor(&mut single, DType::F32, &[2], &[1])),
        Some(tensor(&mut other, DType::F32, &[2], &[1])),
        Some(tensor(&mut whole, DType::I64, &[2], &[1])),
        Some(tensor(&mut others, DType::I64, &[2], &[1])),
        Some(tensor(&mut column, DType::F32, &[2, 1], &[1, 1])),
        Some(fixed),
    ]);
    assert_eq!(combined(&lent, Combination::Blend(0.5), &[0], &[1]).0, OK);
    assert_eq!(single.map(f32::to_bits), [2.0_f32, 1.5].map(f32::to_bits));
    assert_eq!(combined(&lent, Combination::Copy, &[2, 0], &[3, 1]).0, OK);
    assert_eq!((whole, single), ([7, 8], [3.0, 5.0]));
    for (combination, onto, from, status, part) in [
        (
            Combination::Add(1.0),
            [0, 2],
            [1, 3],
            Status::UNSUPPORTED,
            "the type I64",
        ),
        (
            Combination::Copy,
            [0, 2],
            [4, 3],
            Status::INVALID,
            "different shapes, [2] and [2, 1]",
        ),
        (
            Combination::Copy,
            [0, 2],
            [1, 2],
            Status::INVALID,
            "share elements",
        ),
        (
            Combination::Copy,
            [2, 5],
            [3, 1],
            Status::NOT_LEGAL_HERE,
            "can't be changed here",
        ),
    ] {
        let (found, message) = combined(&lent, combination, &onto, &from);
        assert_eq!(found, status.0, "{message}");
        assert!(message.contains(part), "{message}");
        assert_eq!((whole, single), ([7, 8], [3.0, 5.0]), "{message}");
    }
    let (found, message) = combined(&lent, Combination::Copy, &[0], &[1, 1]);
    assert_eq!(
        (found, message.as_str()),
        (Status::INVALID.0, "1 tensors can't be combined with 2")
    );
}

#[test]
fn indices_that_cant_be_as_many_are_refused() {
    let mut numbers = [1.0_f32];
    let lent = Collection(vec![Some(tensor(&mut numbers, DType::F32, &[1], &[1]))]);
    let vectors = VectorsAbi {
        count: usize::MAX,
        ..chosen(&[0])
    };
    let (status, message) = changed(&lent, Change::Fill(0.0), vectors);
    assert_eq!(status, Status::INVALID.0, "{message}");
    assert_eq!(numbers[0].to_bits(), 1.0_f32.to_bits());
}
