//! Attention with a cache, padding and documents is attention without them; what a pass says is refused where it doesn't fit.

use candle_core::{DType, Result, Tensor};

use super::*;
use crate::layers::PositionEmbedding;
use crate::parameters::Parameters;
use crate::random::stream;
use crate::{KeyValueCache, Visibility};

/// Positions of the longest row.
const LENGTH: usize = 24;

fn vectors(rows: usize, length: usize) -> Tensor {
    let mut stream = stream(4, "vectors", 0, 0);
    let numbers: Vec<f32> = (0..rows * length * 16)
        .map(|_| stream.normal() as f32)
        .collect();
    let device = sconce_ops::device::for_tests();
    Tensor::from_vec(numbers, (rows, length, 16), &device).expect("vectors")
}

/// Learned positions, and a causal attention of some kind, with what changes it.
struct Model {
    positions: PositionEmbedding,
    attention: Attention,
}

impl Model {
    fn new(change: impl FnOnce(&mut AttentionOptions)) -> Model {
        let mut parameters = Parameters::new(7, DType::F32, &sconce_ops::device::for_tests());
        let mut options = AttentionOptions::new(4);
        options.causal = true;
        change(&mut options);
        let positions = PositionEmbedding::new(&mut parameters.scope("pos"), LENGTH, 16, None);
        let attention = Attention::new(&mut parameters.scope("attn"), 16, "attn", options);
        Model {
            positions: positions.expect("positions"),
            attention: attention.expect("attention"),
        }
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let x = Layer::forward(&self.positions, x, pass)?;
        self.attention.forward(&x, pass)
    }
}

fn models() -> [Model; 4] {
    let separate = ["q", "k", "v"].map(|name| ProjectionOptions::new(name, false));
    [
        Model::new(|_| {}),
        Model::new(|options| options.rotary = Rotary::new(LENGTH, 4, 100.0).ok()),
        Model::new(|options| {
            options.kv_heads = Some(2);
            options.head_width = Some(8);
            options.rotary = Rotary::new(LENGTH, 8, 100.0).ok();
            options.query_norm = Some(QueryNormOptions {
                names: ["q_norm", "k_norm"].map(str::to_owned),
                epsilon: 1e-6,
            });
            options.projections = AttentionProjections::Separate(separate);
        }),
        Model::new(|options| options.window = Some(5)),
    ]
}

fn furthest(a: &Tensor, b: &Tensor) -> Result<f32> {
    (a - b)?.abs()?.max_all()?.to_scalar()
}

#[test]
fn passes_over_further_tokens_with_a_cache_are_one_pass_over_all() -> Result<()> {
    let x = vectors(2, LENGTH);
    for (index, model) in models().iter().enumerate() {
        let whole = model.forward(&x, &mut Pass::evaluation())?;
        let mut cache = KeyValueCache::new(2, LENGTH);
        let mut begin = 0;
        for end in [10, 11, 12, 21, LENGTH] {
            let some = x.narrow(1, begin, end - begin)?;
            let found = model.forward(&some, &mut Pass::evaluation().caching(&mut cache))?;
            let expected = whole.narrow(1, begin, end - begin)?;
            assert!(
                furthest(&found, &expected)? < 2e-6,
                "{index}: {begin} to {end}"
            );
            assert_eq!(cache.length(), end);
            begin = end;
        }
        let one = x.narrow(1, 0, 1)?;
        let error = model.forward(&one, &mut Pass::evaluation().caching(&mut cache));
        let error = error.expect_err("a full cache").to_string();
        assert!(
            error.contains("full") || error.contains("position 24"),
            "{error}"
        );
        // Continued from an earlier position.
        cache.truncate(12);
        let some = x.narrow(1, 12, 3)?;
        let found = model.forward(&some, &mut Pass::evaluation().caching(&mut cache))?;
        assert!(furthest(&found, &whole.narrow(1, 12, 3)?)? < 2e-6);
    }
    Ok(())
}

#[test]
fn rows_with_padding_in_front_are_rows_without() -> Result<()> {
    let x = vectors(2, LENGTH);
    let padding = [0, 7];
    for model in models() {
        let mut cache = KeyValueCache::padded(&padding, LENGTH);
        let prompt = x.narrow(1, 0, 20)?;
        let prompt = model.forward(&prompt, &mut Pass::evaluation().caching(&mut cache))?;
        let next = x.narrow(1, 20, 4)?;
        let next = model.forward(&next, &mut Pass::evaluation().caching(&mut cache))?;
        let cached = Tensor::cat(&[prompt, next], 1)?;
        let visibility = Visibility::of_starts(&padding, LENGTH)?;
        let seeing = model.forward(&x, &mut Pass::evaluation().seeing(visibility))?;
        for (row, start) in padding.into_iter().enumerate() {
            let own = |x: &Tensor| x.narrow(0, row, 1)?.narrow(1, start, LENGTH - start);
            let alone = model.forward(&own(&x)?, &mut Pass::evaluation())?;
            assert!(furthest(&own(&cached)?, &alone)? < 2e-6);
            assert!(furthest(&own(&seeing)?, &alone)? < 2e-6);
        }
    }
    Ok(())
}

#[test]
fn documents_in_a_row_and_rows_of_other_lengths_are_sequences_of_their_own() -> Result<()> {
    let x = vectors(2, LENGTH);
    let full = Model::new(|options| options.causal = false);
    for model in models().iter().chain([&full]) {
        let documents = Visibility::of_documents(&[vec![0, 9], vec![3, 4]], LENGTH)?;
        let together = model.forward(&x, &mut Pass::evaluation().seeing(documents))?;
        let lengths = Visibility::of_lengths(&[LENGTH, 9], LENGTH)?;
        let padded = model.forward(&x, &mut Pass::evaluation().seeing(lengths))?;
        for (row, begin, end) in [
            (0, 0, 9),
            (0, 9, LENGTH),
            (1, 0, 3),
            (1, 3, 4),
            (1, 4, LENGTH),
        ] {
            let own = |x: &Tensor| x.narrow(0, row, 1)?.narrow(1, begin, end - begin);
            let alone = model.forward(&own(&x)?, &mut Pass::evaluation())?;
            assert!(furthest(&own(&together)?, &alone)? < 2e-6, "{row} {begin}");
        }
        let short = x.narrow(0, 1, 1)?.narrow(1, 0, 9)?;
        let alone = model.forward(&short, &mut Pass::evaluation())?;
        let own = padded.narrow(0, 1, 1)?.narrow(1, 0, 9)?;
        assert!(furthest(&own, &alone)? < 2e-6);
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    assert!(Visibility::of_lengths(&[3, 5], 4).is_err());
    assert!(Visibility::of_starts(&[5], 4).is_err());
    assert!(Visibility::of_documents(&[vec![3, 2]], 4).is_err());
    assert!(Visibility::new(1, 2, [([0, 1], 0)]).is_err());
    let (x, model) = (vectors(2, 4), Model::new(|_| {}));
    let of_others = Visibility::of_lengths(&[4], 4)?;
    assert!(
        model
            .forward(&x, &mut Pass::evaluation().seeing(of_others))
            .is_err()
    );
    let full = Model::new(|options| options.causal = false);
    let mut cache = KeyValueCache::new(2, 4);
    let error = full.forward(&x, &mut Pass::evaluation().caching(&mut cache));
    assert!(
        error
            .expect_err("it sees ahead")
            .to_string()
            .contains("causal")
    );
    Ok(())
}
