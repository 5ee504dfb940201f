//! Attention of all kinds: against `f64`, finite differences, what is composed, and the same by other means.

use std::sync::Arc;

use candle_core::{DType, Result, Tensor, Var};

use super::*;
use crate::gradient_check::check_gradients;
use crate::kernels::other_instructions::Digest;
use crate::kernels::region;
use crate::options::{
    AttentionDropout, KeyIntervals, RotaryTable, Rotation, TokenPositions, VisibleKeys,
};
use crate::random::stream;
use crate::{normal_numbers, rounded_products, rounds_products};

/// An attention of some kind, and sizes (batch, queries, keys, heads, heads of keys, width of a head).
struct Case {
    name: &'static str,
    sizes: [usize; 6],
    terms: AttentionTerms,
}

fn case(
    name: &'static str,
    sizes: [usize; 6],
    change: impl FnOnce(&mut AttentionTerms, [usize; 6]),
) -> Case {
    let mut terms = AttentionTerms::new(sizes[3], false);
    terms.kv_heads = sizes[4];
    change(&mut terms, sizes);
    Case { name, sizes, terms }
}

/// Intervals from those of each (row, query), of these sizes.
fn intervals(
    [batch, queries, keys, ..]: [usize; 6],
    of: impl Fn(usize, usize) -> (usize, usize),
) -> VisibleKeys {
    let all = (0..batch * queries).map(|index| of(index / queries, index % queries));
    let all = all.map(|(begin, end)| [begin.min(end) as u32, end.min(keys) as u32]);
    VisibleKeys::Each(KeyIntervals::new(batch, queries, all.collect()).expect("intervals"))
}

fn rotation(pairs: usize, positions: TokenPositions) -> Rotation {
    let steps = (0..pairs).map(|pair| 100_f64.powf(-(pair as f64) / pairs as f64));
    Rotation {
        table: RotaryTable::new(300, steps.collect()),
        positions,
    }
}

fn dropout() -> AttentionDropout {
    AttentionDropout::new(0.3, stream(5, "dropout/attention", 0, 3))
}

/// All kinds, for batches of these sizes: (queries = keys, width of a head).
fn cases(length: usize, each: usize) -> Vec<Case> {
    let plain = [2, length, length, 4, 4, each];
    let grouped = [2, length, length, 4, 2, each];
    let cached = [2, length / 2 + 1, length, 4, 1, each];
    let third = length / 3;
    vec![
        case("causal", plain, |terms, _| {
            terms.visible = VisibleKeys::Causal;
        }),
        case("grouped", grouped, |terms, _| terms.scale = Some(0.7)),
        case("window", grouped, |terms, sizes| {
            terms.visible = intervals(sizes, |_, query| {
                ((query + 1).saturating_sub(third), query + 1)
            });
        }),
        case("right padding", plain, |terms, sizes| {
            terms.visible = intervals(sizes, |row, query| {
                let end = if row == 0 { length } else { third };
                (0, if query < end { end } else { 0 })
            });
        }),
        case("left padding", plain, |terms, sizes| {
            terms.visible = intervals(sizes, |row, query| (row * third, query + 1));
        }),
        case("documents", grouped, |terms, sizes| {
            terms.visible = intervals(sizes, |_, query| (query / 3 * 3, query + 1));
            let positions: Vec<u32> = (0..length as u32).map(|query| query % 3).collect();
            terms.rotation = Some(rotation(
                each / 2,
                TokenPositions::Each {
                    rows: 1,
                    positions: positions.into(),
                },
            ));
        }),
        case("prefix", plain, |terms, sizes| {
            terms.visible = intervals(sizes, |_, query| (0, third.max(query + 1)));
        }),
        case("offset", cached, |terms, _| {
            terms.visible = VisibleKeys::Causal;
        }),
        case("keys that no query sees", plain, |terms, sizes| {
            terms.visible = intervals(sizes, |_, query| {
                if query % 2 == 0 {
                    (length - 1, length)
                } else {
                    (0, 1)
                }
            });
        }),
        case("nothing is seen", plain, |terms, sizes| {
            terms.visible = intervals(sizes, |_, _| (0, 0));
        }),
        case("rotary", plain, |terms, _| {
            terms.rotation = Some(rotation(each / 2, TokenPositions::From(0)));
            terms.visible = VisibleKeys::Causal;
        }),
        case("rotary in part", grouped, |terms, _| {
            let positions: Vec<u32> = (0..2 * length as u32).map(|index| index * 7 % 40).collect();
            terms.rotation = Some(rotation(
                each / 4,
                TokenPositions::Each {
                    rows: 2,
                    positions: positions.into(),
                },
            ));
        }),
        case("dropout", plain, |terms, _| {
            terms.dropout = Some(dropout());
            terms.visible = VisibleKeys::Causal;
        }),
        case("everything", grouped, |terms, sizes| {
            terms.dropout = Some(dropout());
            terms.rotation = Some(rotation(each / 2, TokenPositions::From(3)));
            terms.visible = intervals(sizes, |row, query| (row * third, query + 1));
        }),
    ]
}

/// Queries, keys and values.
fn inputs(case: &Case, dtype: DType) -> Result<[Tensor; 3]> {
    let [batch, queries, keys, heads, kv_heads, each] = case.sizes;
    let tensor = |seed: u64, positions: usize, heads: usize| {
        normal_numbers(seed, (batch, positions, heads * each))?.to_dtype(dtype)
    };
    Ok([
        tensor(1, queries, heads)?,
        tensor(2, keys, kv_heads)?,
        tensor(3, keys, kv_heads)?,
    ])
}

/// Outputs, and the gradients of queries, keys and values of a loss in which each output has a different weight.
fn results(case: &Case, dtype: DType, packed: bool) -> Result<Vec<Tensor>> {
    let given = inputs(case, dtype)?;
    let (vars, y) = if packed {
        let qkv = Var::from_tensor(&Tensor::cat(&given, 2)?)?;
        let y = attention_with(AttentionInputs::Packed(&qkv), &case.terms)?;
        (vec![qkv], y)
    } else {
        let vars = given
            .iter()
            .map(Var::from_tensor)
            .collect::<Result<Vec<_>>>()?;
        let y = attention_with(
            AttentionInputs::Separate([&vars[0], &vars[1], &vars[2]]),
            &case.terms,
        )?;
        (vars, y)
    };
    let indices = Tensor::arange(0.0, y.elem_count() as f64, &crate::device::for_tests())?;
    let factors = indices.cos()?.reshape(y.shape())?;
    let factors = factors.to_dtype(DType::F32)?.to_dtype(dtype)?;
    let gradients = (&y * factors)?.sum_all()?.backward()?;
    let of = vars
        .iter()
        .map(|var| gradients.get(var).cloned().expect("a gradient"));
    let of: Vec<Tensor> = of.collect();
    let all = if packed {
        vec![y, of[0].clone()]
    } else {
        vec![y, Tensor::cat(&of_same(&of, case)?, 2)?]
    };
    Ok(all)
}

/// Gradients side by side, padded to as many positions.
fn of_same(of: &[Tensor], case: &Case) -> Result<Vec<Tensor>> {
    let most = case.sizes[1].max(case.sizes[2]);
    of.iter()
        .map(|x| x.pad_with_zeros(1, 0, most - x.dim(1)?))
        .collect()
}

fn furthest(a: &Tensor, b: &Tensor) -> Result<f64> {
    let difference = (a.to_dtype(DType::F64)? - b.to_dtype(DType::F64)?)?;
    difference.abs()?.max_all()?.to_scalar()
}

fn bits(x: &Tensor) -> Result<Vec<u32>> {
    let numbers = x.flatten_all()?.to_vec1::<f32>()?;
    Ok(numbers.into_iter().map(f32::to_bits).collect())
}

#[test]
fn outputs_and_gradients_are_those_of_double_numbers() -> Result<()> {
    for (length, each) in [(5, 4), (33, 8), (130, 20)] {
        for case in cases(length, each) {
            let exact = results(&case, DType::F64, false)?;
            let is_packed = case.sizes[1] == case.sizes[2];
            for packed in if is_packed {
                vec![false, true]
            } else {
                vec![false]
            } {
                let found = results(&case, DType::F32, packed)?;
                for (found, exact) in found.iter().zip(&exact) {
                    let error = furthest(found, exact)?;
                    assert!(
                        error < 1e-5,
                        "{} {length} {packed}: off by {error}",
                        case.name
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn gradients_are_finite_differences() -> Result<()> {
    for case in cases(6, 4) {
        let vars = inputs(&case, DType::F64)?;
        let vars = vars
            .iter()
            .map(Var::from_tensor)
            .collect::<Result<Vec<_>>>()?;
        let report = check_gradients(&vars, |x| {
            attention_with(
                AttentionInputs::Separate([&x[0], &x[1], &x[2]]),
                &case.terms,
            )
        });
        // Where nothing is seen, no input moves the output, and its gradient is zero.
        assert!(
            report.is_right() || case.name == "nothing is seen",
            "{}: {report}",
            case.name
        );
    }
    Ok(())
}

#[test]
fn what_is_composed_is_the_same() -> Result<()> {
    for case in cases(7, 4) {
        let [q, k, v] = inputs(&case, DType::F64)?;
        let found = attention_with(AttentionInputs::Separate([&q, &k, &v]), &case.terms)?;
        let composed = composed::attention_of([&q, &k, &v], &case.terms)?;
        let error = furthest(&found, &composed)?;
        assert!(error < 1e-6, "{}: {error}", case.name);
    }
    Ok(())
}

/// Packed documents are separate documents, padded rows are rows without padding, and a window is what it hides.
#[test]
fn rows_in_one_are_rows_apart() -> Result<()> {
    let (length, starts) = (90, [0, 20, 57]);
    let document = |query: usize| {
        starts
            .iter()
            .rposition(|&start| start <= query)
            .expect("one")
    };
    let sizes = [1, length, length, 4, 2, 8];
    let positions: Vec<u32> = (0..length)
        .map(|query| (query - starts[document(query)]) as u32)
        .collect();
    let together = case("packed", sizes, |terms, sizes| {
        terms.visible = intervals(sizes, |_, query| (starts[document(query)], query + 1));
        terms.rotation = Some(rotation(
            4,
            TokenPositions::Each {
                rows: 1,
                positions: positions.clone().into(),
            },
        ));
    });
    let [q, k, v] = inputs(&together, DType::F32)?;
    let whole = attention_with(AttentionInputs::Separate([&q, &k, &v]), &together.terms)?;
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(length);
        let own = |x: &Tensor| x.narrow(1, start, end - start);
        let mut terms = AttentionTerms::new(4, true);
        terms.kv_heads = 2;
        terms.rotation = Some(rotation(4, TokenPositions::From(0)));
        // Views of larger tensors.
        let alone = attention_with(
            AttentionInputs::Separate([&own(&q)?, &own(&k)?, &own(&v)?]),
            &terms,
        )?;
        assert!(furthest(&alone, &own(&whole)?)? < 1e-6);
    }
    Ok(())
}

/// New queries to keys of a longer buffer are the last rows of all queries; also one by one.
#[test]
fn queries_to_cached_keys_are_those_of_the_whole() -> Result<()> {
    let all = case("whole", [2, 40, 40, 4, 2, 16], |terms, _| {
        terms.visible = VisibleKeys::Causal;
    });
    let [q, k, v] = inputs(&all, DType::F32)?;
    let whole = attention_with(AttentionInputs::Separate([&q, &k, &v]), &all.terms)?;
    let table = rotation(8, TokenPositions::From(0)).table;
    for (first, count) in [(0, 40), (13, 20), (31, 9), (39, 1)] {
        let q = q.narrow(1, first, count)?;
        let (k, v) = (
            k.narrow(1, 0, first + count)?,
            v.narrow(1, 0, first + count)?,
        );
        let some = attention_with(AttentionInputs::Separate([&q, &k, &v]), &all.terms)?;
        assert!(
            furthest(&some, &whole.narrow(1, first, count)?)? < 1e-6,
            "{first}"
        );
        // Turned before is turned within.
        let turn = |x: &Tensor, heads: usize, first: usize| {
            let positions = TokenPositions::From(first);
            rotated(
                x,
                heads,
                &Rotation {
                    table: table.clone(),
                    positions,
                },
            )
        };
        let (q, k) = (turn(&q, 4, first)?, turn(&k, 2, 0)?);
        let turned = attention_with(AttentionInputs::Separate([&q, &k, &v]), &all.terms)?;
        let mut within = all.terms.clone();
        within.rotation = Some(rotation(8, TokenPositions::From(0)));
        let [all_q, all_k, all_v] = inputs(&all, DType::F32)?;
        let expected =
            attention_with(AttentionInputs::Separate([&all_q, &all_k, &all_v]), &within)?;
        assert!(
            furthest(&turned, &expected.narrow(1, first, count)?)? < 2e-6,
            "{first} turned"
        );
    }
    Ok(())
}

#[test]
fn bits_depend_neither_on_how_intervals_are_said_nor_on_threads() -> Result<()> {
    let sizes = [3, 100, 100, 4, 4, 16];
    for causal in [false, true] {
        let mut said = AttentionTerms::new(4, causal);
        said.dropout = Some(dropout());
        let mut listed = said.clone();
        listed.visible = intervals(sizes, |_, query| (0, if causal { query + 1 } else { 100 }));
        let of = |terms| {
            results(
                &Case {
                    name: "",
                    sizes,
                    terms,
                },
                DType::F32,
                true,
            )
        };
        let (said, listed) = (of(said)?, of(listed)?);
        for (said, listed) in said.iter().zip(&listed) {
            assert_eq!(bits(said)?, bits(listed)?);
        }
    }
    let all = case("everything", sizes, |terms, _| {
        terms.dropout = Some(dropout());
        terms.rotation = Some(rotation(8, TokenPositions::From(0)));
    });
    let expected = results(&all, DType::F32, true)?;
    let alone = std::sync::Mutex::new(Vec::new());
    // Within a region, all is on one thread.
    region::run(2, |part| {
        if part == 0 {
            *alone.lock().expect("it") = results(&all, DType::F32, true).expect("results");
        }
    });
    for (found, expected) in alone.into_inner().expect("it").iter().zip(&expected) {
        assert_eq!(bits(found)?, bits(expected)?);
    }
    Ok(())
}

/// Every kind, with odd lengths and widths: sums of what is rounded are as far from others as rounding alone is.
#[test]
fn rounded_attention_is_attention_but_for_rounding() -> Result<()> {
    for (length, each) in [(5, 4), (33, 8), (130, 20)] {
        for case in cases(length, each) {
            let exact = results(&case, DType::F32, false)?;
            let rounded = rounded_products(true);
            let found = results(&case, DType::F32, false)?;
            drop(rounded);
            let is_here = rounds_products() && !composed::is_chosen(&found[0]);
            let is_tiled = case.sizes[1] == case.sizes[2] || case.sizes[1] >= 8;
            for (found, exact) in found.iter().zip(&exact) {
                let dot = |a: &Tensor, b: &Tensor| (a * b)?.sum_all()?.to_scalar::<f32>();
                let (ours, theirs) = (dot(found, found)?, dot(exact, exact)?);
                let cosine = dot(found, exact)? / (ours * theirs).sqrt();
                let (name, ratio) = (case.name, (ours / theirs).sqrt());
                assert!(
                    theirs == 0.0 || cosine > 0.9995 && (ratio - 1.0).abs() < 0.01,
                    "{name} {length}: {cosine} {ratio}"
                );
                let differs = bits(found)? != bits(exact)?;
                assert!(
                    differs == (is_here && is_tiled) || theirs == 0.0,
                    "{name} {length}: {differs}"
                );
            }
        }
    }
    Ok(())
}

/// Of all kinds: alone on a thread, and by other instructions.
#[test]
fn rounded_attention_has_the_same_bits_everywhere() -> Result<()> {
    let mut digest = Digest::new();
    for (length, each) in [(33, 7), (90, 16)] {
        for case in cases(length, each) {
            let results = || {
                let _rounded = rounded_products(true);
                results(&case, DType::F32, false)
            };
            let together = results()?;
            let alone = std::sync::Mutex::new(Vec::new());
            // Within a region, all is on one thread.
            region::run(3, |part| {
                if part == 1 {
                    *alone.lock().expect("it") = results().expect("results");
                }
            });
            for (found, alone) in together.iter().zip(alone.into_inner().expect("it")) {
                assert_eq!(bits(found)?, bits(&alone)?, "{}", case.name);
                digest.add(&found.flatten_all()?.to_vec1::<f32>()?);
            }
        }
    }
    digest.expect_same_with_avx2(
        "operations::attention::tests::rounded_attention_has_the_same_bits_everywhere",
    );
    Ok(())
}

#[test]
fn rotation_has_a_right_gradient_and_an_inverse() -> Result<()> {
    let x = Var::from_tensor(&normal_numbers(1, (2, 5, 12))?.to_dtype(DType::F64)?)?;
    let positions: Arc<[u32]> = (0..10)
        .map(|index| index * 31 % 300)
        .collect::<Vec<_>>()
        .into();
    let rotation = rotation(2, TokenPositions::Each { rows: 2, positions });
    let report = check_gradients(std::slice::from_ref(&x), |x| rotated(&x[0], 2, &rotation));
    assert!(report.is_right(), "{report}");
    let y = rotated(&x, 2, &rotation)?;
    assert!(furthest(&y, &composed::rotated(&x, 2, &rotation)?)? < 1e-12);
    let lengths = |x: &Tensor| x.sqr()?.sum(2);
    assert!(furthest(&lengths(&y)?, &lengths(&x)?)? < 1e-12);
    assert!(furthest(&y, &x)? > 0.1);
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    let qkv = normal_numbers(1, (2, 5, 24))?;
    let refused = |change: &dyn Fn(&mut AttentionTerms)| {
        let mut terms = AttentionTerms::new(2, true);
        change(&mut terms);
        let error = attention_with(AttentionInputs::Packed(&qkv), &terms).expect_err("an error");
        error.to_string()
    };
    assert!(refused(&|terms| terms.kv_heads = 0).contains("must divide"));
    assert!(refused(&|terms| terms.heads = 5).contains("was given"));
    assert!(refused(&|terms| terms.scale = Some(0.0)).contains("above 0"));
    let far = rotation(2, TokenPositions::From(296));
    assert!(refused(&|terms| terms.rotation = Some(far.clone())).contains("no rotary angles"));
    let wide = rotation(3, TokenPositions::From(0));
    assert!(refused(&|terms| terms.rotation = Some(wide.clone())).contains("in a head of 4"));
    let beyond = KeyIntervals::new(1, 5, vec![[0, 6]; 5])?;
    assert!(refused(&|terms| terms.visible = VisibleKeys::Each(beyond.clone())).contains("of 5"));
    let few = KeyIntervals::new(1, 4, vec![[0, 4]; 4])?;
    assert!(refused(&|terms| terms.visible = VisibleKeys::Each(few.clone())).contains("of 5"));
    assert!(
        KeyIntervals::new(1, 1, vec![[3, 2]]).is_err()
            && KeyIntervals::new(2, 1, vec![[0, 1]]).is_err()
    );
    Ok(())
}
