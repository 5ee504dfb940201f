//! Keys and values of earlier tokens, for generation.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor, bail};

use crate::ops::TokenPositions;

/// Keys and values of the tokens that a model has seen, for each of its attention layers: a pass over further tokens attends to
/// them, too, with the outputs that one pass over all tokens would have for the further ones.
///
/// The attention must be causal, and what is between the layers must work on each position by itself. Rows may have padding in
/// front, so that prompts of different lengths end together.
///
/// ```
/// # use candle_core::{DType, Device, Tensor};
/// # use sconce_nn::{parameters::Parameters, KeyValueCache, Model, ModelConfig, Pass, Signal, Targets};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let layers = serde_json::json!({"kind": "sequential", "layers": [
/// #     {"kind": "embedding", "width": 8}, {"kind": "attention", "heads": 2, "causal": true, "rotary": true}, {"kind": "linear"}]});
/// # let config: ModelConfig = serde_json::from_value(layers)?;
/// # let mut parameters = Parameters::new(1, DType::F32, &Device::Cpu);
/// # let targets = Targets::ClassPerPosition((0..5).map(|class| class.to_string()).collect());
/// # let model = config.build(&mut parameters, &Signal::tokens(4, 5), &targets)?;
/// let tokens = Tensor::new(&[[1_u32, 4, 2, 0]], &Device::Cpu)?;
/// let whole = model.forward(&tokens, &mut Pass::evaluation())?;
/// let mut cache = KeyValueCache::new(1, 4);
/// model.forward(&tokens, &mut Pass::evaluation().caching(&mut cache))?;
/// cache.truncate(2);
/// assert_eq!((cache.length(), cache.capacity()), (2, 4));
/// # assert_eq!(whole.dims(), [1, 4, 5]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct KeyValueCache {
    rows: usize,
    capacity: usize,
    /// First position of each row that isn't padding.
    starts: Vec<usize>,
    layers: BTreeMap<String, CachedLayer>,
}

/// Keys and values of a layer, (rows, capacity, width of all key heads), of which `length` positions are there.
#[derive(Debug)]
struct CachedLayer {
    keys: Tensor,
    values: Tensor,
    length: usize,
}

impl KeyValueCache {
    /// An empty cache for as many rows, of at most `capacity` positions.
    pub fn new(rows: usize, capacity: usize) -> KeyValueCache {
        KeyValueCache::padded(&vec![0; rows], capacity)
    }

    /// An empty cache for rows that have as many positions of padding in front, which no query sees.
    pub fn padded(padding: &[usize], capacity: usize) -> KeyValueCache {
        KeyValueCache {
            rows: padding.len(),
            capacity,
            starts: padding.to_vec(),
            layers: BTreeMap::new(),
        }
    }

    /// Returns the number of positions that are there.
    pub fn length(&self) -> usize {
        let lengths = self.layers.values().map(|layer| layer.length);
        lengths.min().unwrap_or(0)
    }

    /// Returns the largest number of positions.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets the positions from `length` on.
    pub fn truncate(&mut self, length: usize) {
        for layer in self.layers.values_mut() {
            layer.length = layer.length.min(length);
        }
    }

    /// First position of a row that isn't padding.
    pub(crate) fn start(&self, row: usize) -> usize {
        self.starts.get(row).copied().unwrap_or(0)
    }

    /// Whether any row has padding.
    pub(crate) fn has_padding(&self) -> bool {
        self.starts.iter().any(|start| *start > 0)
    }

    /// Numbers of further tokens for position embeddings, of which there are `length`, from position `first` on.
    pub(crate) fn positions(&self, first: usize, length: usize) -> TokenPositions {
        if !self.has_padding() {
            return TokenPositions::From(first);
        }
        let rows = self.starts.iter();
        let positions = rows.flat_map(|start| {
            (first..first + length).map(move |index| index.saturating_sub(*start) as u32)
        });
        TokenPositions::Each {
            rows: self.rows,
            positions: positions.collect::<Vec<_>>().into(),
        }
    }

    /// Appends a layer's keys and values of further tokens, (rows, length, width of all key heads), at position `first`; returns views of
    /// all up to them.
    pub(crate) fn extend(
        &mut self,
        layer: &str,
        first: usize,
        [keys, values]: [&Tensor; 2],
    ) -> Result<[Tensor; 2]> {
        let (rows, length, width) = keys.dims3()?;
        let end = first + length;
        if rows != self.rows {
            bail!("a cache of {} rows was given {rows}", self.rows)
        }
        if end > self.capacity {
            bail!(
                "a cache of {} positions is full: {length} more would be {end}",
                self.capacity
            )
        }
        if !self.layers.contains_key(layer) {
            let memory =
                || Tensor::zeros((rows, self.capacity, width), keys.dtype(), keys.device());
            let cached = CachedLayer {
                keys: memory()?,
                values: memory()?,
                length: 0,
            };
            self.layers.insert(layer.to_owned(), cached);
        }
        let Some(cached) = self.layers.get_mut(layer) else {
            bail!("the cache has lost the layer `{layer}`")
        };
        if cached.length < first {
            bail!(
                "the cache of `{layer}` has {} positions, not {first}",
                cached.length
            )
        }
        cached
            .keys
            .slice_set(&keys.detach().contiguous()?, 1, first)?;
        cached
            .values
            .slice_set(&values.detach().contiguous()?, 1, first)?;
        cached.length = end;
        Ok([
            cached.keys.narrow(1, 0, end)?,
            cached.values.narrow(1, 0, end)?,
        ])
    }
}
