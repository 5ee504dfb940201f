//! What a model is made of, for `sconce summary`.

/// A model's layers, in the order in which they run, with what each costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// A sample's shape.
    pub input: Vec<usize>,
    /// The layers.
    pub layers: Vec<LayerSummary>,
}

/// A layer of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSummary {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// The shape that it makes of a sample.
    pub output: Vec<usize>,
    /// How many learned numbers it has of its own, or with its layers where it has some.
    pub parameters: usize,
    /// The floating-point operations of a sample's forward pass: two for each multiplication and
    /// addition of its products, convolutions and attention; nothing else is counted.
    pub flops: u64,
    /// How deep it stands inside other layers; those at 0 add up to the model.
    pub depth: usize,
}

impl Summary {
    /// The learned numbers of the whole model.
    pub fn parameters(&self) -> usize {
        self.outermost().map(|layer| layer.parameters).sum()
    }

    /// The floating-point operations of a sample's forward pass.
    pub fn flops(&self) -> u64 {
        self.outermost().map(|layer| layer.flops).sum()
    }

    fn outermost(&self) -> impl Iterator<Item = &LayerSummary> {
        self.layers.iter().filter(|layer| layer.depth == 0)
    }
}
