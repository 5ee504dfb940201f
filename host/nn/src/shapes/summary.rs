//! Layers and costs of a model, for `sconce summary`.

/// A model's layers, in the order in which they run, with the cost of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Shape of a sample.
    pub input: Vec<usize>,
    /// Layers, each before those inside it.
    pub layers: Vec<LayerSummary>,
}

/// A layer of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSummary {
    /// Full name of the layer.
    pub name: String,
    /// Kind of the layer, as in the manifest.
    pub kind: &'static str,
    /// Shape of the output for one sample.
    pub output: Vec<usize>,
    /// Number of learned elements, including those of the layers inside it.
    pub parameters: usize,
    /// FLOPs of a sample's forward pass: two for each multiply-add of matrix multiplications,
    /// convolutions and attention; nothing else is counted.
    pub flops: u64,
    /// Nesting depth; layers at depth 0 add up to the model.
    pub depth: usize,
}

impl Summary {
    /// Returns the number of learned elements of the model.
    pub fn parameters(&self) -> usize {
        self.outermost().map(|layer| layer.parameters).sum()
    }

    /// Returns the FLOPs of a sample's forward pass.
    pub fn flops(&self) -> u64 {
        self.outermost().map(|layer| layer.flops).sum()
    }

    fn outermost(&self) -> impl Iterator<Item = &LayerSummary> {
        self.layers.iter().filter(|layer| layer.depth == 0)
    }
}
