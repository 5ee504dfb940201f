use std::collections::HashMap;

use safetensors::tensor::{Dtype, TensorView};

use super::super::split_rows::{RowHash, RowsOf, SplitRows};
use crate::split::Parts;

fn hash(number: u8) -> RowHash {
    [number; 16]
}

fn known() -> SplitRows {
    let rows: Vec<RowHash> = (0..6).map(hash).collect();
    let parts = Parts {
        train: vec![0, 2, 3],
        val: vec![1],
        test: vec![4, 5],
    };
    SplitRows::new(&rows, &parts)
}

#[test]
fn rows_are_found_by_part_wherever_they_are() {
    let rows = [9, 5, 1, 0, 8, 3].map(hash);
    for (part, expected) in [
        (RowsOf::Train, vec![3, 5]),
        (RowsOf::Val, vec![2]),
        (RowsOf::Test, vec![1]),
        (RowsOf::New, vec![0, 4]),
    ] {
        assert_eq!(known().select(&rows, part), expected, "{part:?}");
    }
}

#[test]
fn they_come_back_from_their_file_and_others_are_refused() {
    let bytes = known().to_bytes();
    assert_eq!(SplitRows::from_bytes(&bytes).expect("its file"), known());
    let file = |parts: &[(&str, Dtype, Vec<usize>)]| {
        let data = [0; 64];
        let tensors: HashMap<&str, TensorView<'_>> = (parts.iter())
            .map(|(name, kind, shape)| {
                let size = shape.iter().product::<usize>() * kind.bitsize() / 8;
                let view = TensorView::new(*kind, shape.clone(), &data[..size]);
                (*name, view.expect("a tensor"))
            })
            .collect();
        safetensors::serialize(tensors, None).expect("a file")
    };
    let (train, val) = (
        ("train", Dtype::U8, vec![2, 16]),
        ("val", Dtype::U8, vec![0, 16]),
    );
    for (bytes, problem) in [
        (bytes[..bytes.len() - 1].to_vec(), ""),
        (Vec::new(), ""),
        (file(&[train.clone(), val.clone()]), "test"),
        (
            file(&[train.clone(), val.clone(), ("test", Dtype::U8, vec![2, 8])]),
            "`test` is not of bytes",
        ),
        (
            file(&[
                train.clone(),
                val.clone(),
                ("test", Dtype::F32, vec![1, 16]),
            ]),
            "`test` is not of bytes",
        ),
        (
            file(&[train, val, ("test", Dtype::U8, vec![16])]),
            "`test` is not of bytes",
        ),
    ] {
        let error = SplitRows::from_bytes(&bytes)
            .expect_err(problem)
            .to_string();
        assert!(error.contains("`rows.safetensors` is damaged"), "{error}");
        assert!(error.contains(problem), "{problem}: {error}");
    }
}
