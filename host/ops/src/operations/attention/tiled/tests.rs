//! Each product of rounded factors against that of the same factors in `f64`.

use super::*;
use crate::kernels::along;
use crate::random::stream;

fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut stream = stream(seed, "attention's products", 0, 0);
    (0..count).map(|_| stream.normal() as f32).collect()
}

/// A number as it is multiplied.
fn narrow(number: f32) -> f64 {
    let mut word = [0.0];
    along(&[number], 0, (1, 1), 1, &mut word);
    f64::from(f32::from_bits(word[0].to_bits() << 16))
}

/// Asserts that a sum of products of rounded factors is what is expected.
fn expect(found: f32, products: impl Iterator<Item = (f32, f32)>, what: &str) {
    let (mut sum, mut size) = (0.0, 0.0);
    for (left, right) in products {
        let product = narrow(left) * narrow(right);
        (sum, size) = (sum + product, size + product.abs());
    }
    let error = (f64::from(found) - sum).abs();
    assert!(error <= 1e-6 * size, "{what}: off by {error} of {size}");
}

/// Where the elements of a single head are.
const fn layout(each: usize) -> HeadLayout {
    HeadLayout {
        start: 0,
        step: each,
    }
}

/// With odd widths and lengths, several blocks, and causal ones.
#[test]
fn rounded_products_are_those_of_rounded_factors() {
    if !has_tiles() {
        return;
    }
    for (length, each, causal) in [
        (5, 3, false),
        (33, 8, true),
        (65, 7, false),
        (131, 20, true),
    ] {
        let sizes = AttentionSizes {
            batch: 1,
            queries: length,
            keys: length,
            heads: 1,
            kv_heads: 1,
            each,
        };
        let terms = AttentionTerms::new(1, causal);
        let attention = TiledAttention::new(sizes, &terms, None, Terms::Pairs);
        let name = format!("{length} {each} {causal}");
        let [left, right] = [1, 2].map(|seed| numbers(length * each, seed));
        let part = |numbers| HeadPart {
            numbers,
            step: each,
        };
        let [mut by_width, mut by_positions, mut words] = [const { Vec::new() }; 3];
        let dims = (length, each);
        let by_width = along_width(part(&left), dims, Terms::Pairs, &mut by_width);
        let by_positions = along_positions(part(&right), dims, Terms::Pairs, &mut by_positions);
        let mut scratch = HeadScratch::new(sizes, false).block;
        let mut of_queries = UninitBuffer::new(length * each);
        let mut of_keys = UninitBuffer::new(length * each);
        let queries_target = SharedSlice::new(of_queries.slots());
        let keys_target = SharedSlice::new(of_keys.slots());
        let mut written = vec![false; length.div_ceil(PANEL)];
        // Weights of all queries and keys: zeros where nothing is computed.
        let mut weights = vec![0.0; length * length];
        for block in attention.blocks(0) {
            scratch.make_room(&block);
            let BlockScratch {
                transposed,
                weights: of_block,
                words: memory,
                ..
            } = &mut scratch;
            let columns = part(&right);
            attention.with_queries(by_width, columns, &block, (transposed, of_block, memory));
            for panel in block.panels() {
                for key in panel.begin..panel.end {
                    for lane in panel.start..panel.start + panel.count {
                        let query = block.first + lane;
                        let pairs = left[key * each..][..each]
                            .iter()
                            .zip(&right[query * each..][..each]);
                        let found = &mut of_block[block.line(key) + lane];
                        expect(*found, pairs.map(|(a, b)| (*a, *b)), &name);
                        weights[query * length + key] = *found;
                    }
                }
            }
            let of_block = &of_block[..];
            attention.sums(
                (of_block, &mut words),
                by_positions,
                &block,
                (&queries_target, layout(each)),
            );
            attention.sums_of_queries(
                (of_block, &mut words),
                by_positions,
                &block,
                (&keys_target, layout(each)),
                &written,
            );
            block.note_written(&mut written);
        }
        // SAFETY: blocks have written the sums of all queries, and each key is seen by the query of its own position.
        #[expect(unsafe_code, reason = "they are written")]
        let [of_queries, of_keys] = [of_queries, of_keys].map(|sums| unsafe { sums.written() });
        for row in 0..length {
            for column in 0..each {
                let own = row * each + column;
                let from = |other: usize| right[other * each + column];
                let pairs = (0..length).map(|key| (weights[row * length + key], from(key)));
                expect(of_queries[own], pairs, &name);
                let pairs = (0..length).map(|query| (weights[query * length + row], from(query)));
                expect(of_keys[own], pairs, &name);
            }
        }
    }
}
