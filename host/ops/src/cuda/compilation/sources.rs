//! The families of kernels: their sources, and how they are compiled.

/// A file of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::cuda) enum Family {
    /// Activation functions with a bias, and sums of columns.
    Activations,
    /// Attention in f32.
    Attention,
    /// Attention in bf16, for devices of capability 8.0 and newer.
    AttentionTensorCores,
    /// Batch norm.
    BatchNorm,
    /// Passes over collections of tensors.
    Collections,
    /// Windows of convolutions.
    Convolution,
    /// The gradient of an embedding's table.
    Embedding,
    /// What metrics of logits are made of.
    Measures,
    /// Steps of optimizers.
    Optimizers,
    /// Pieces of gradients that ranks exchange.
    Pieces,
    /// Max and mean pooling.
    Pooling,
    /// Random factors.
    Random,
    /// Layer and RMS norm.
    RowNorms,
    /// Softmax and cross entropy.
    Softmax,
}

/// What is compiled for, with a capability such as (9, 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The device, in machine code.
    Device((u32, u32)),
    /// Devices as new and newer, in PTX.
    Older((u32, u32)),
}

/// Options of the compiler, one a line; why they are as they are is said in `common.cuh`.
const OPTIONS: &str = include_str!("../../../cuda/options.txt");

/// What is put before each source.
const COMMON: &str = include_str!("../../../cuda/common.cuh");

impl Family {
    /// All of them.
    #[cfg(test)]
    pub(in crate::cuda) const ALL: [Family; 14] = [
        Family::Activations,
        Family::Attention,
        Family::AttentionTensorCores,
        Family::BatchNorm,
        Family::Collections,
        Family::Convolution,
        Family::Embedding,
        Family::Measures,
        Family::Optimizers,
        Family::Pieces,
        Family::Pooling,
        Family::Random,
        Family::RowNorms,
        Family::Softmax,
    ];

    /// Name of the file, without its ending.
    pub(super) fn name(self) -> &'static str {
        match self {
            Family::Activations => "activations",
            Family::Attention => "attention",
            Family::AttentionTensorCores => "attention_tensor_cores",
            Family::BatchNorm => "batch_norm",
            Family::Collections => "collections",
            Family::Convolution => "convolution",
            Family::Embedding => "embedding",
            Family::Measures => "measures",
            Family::Optimizers => "optimizers",
            Family::Pieces => "pieces",
            Family::Pooling => "pooling",
            Family::Random => "random",
            Family::RowNorms => "row_norms",
            Family::Softmax => "softmax",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Family::Activations => include_str!("../../../cuda/activations.cu"),
            Family::Attention => include_str!("../../../cuda/attention.cu"),
            Family::AttentionTensorCores => {
                include_str!("../../../cuda/attention_tensor_cores.cu")
            }
            Family::BatchNorm => include_str!("../../../cuda/batch_norm.cu"),
            Family::Collections => include_str!("../../../cuda/collections.cu"),
            Family::Convolution => include_str!("../../../cuda/convolution.cu"),
            Family::Embedding => include_str!("../../../cuda/embedding.cu"),
            Family::Measures => include_str!("../../../cuda/measures.cu"),
            Family::Optimizers => include_str!("../../../cuda/optimizers.cu"),
            Family::Pieces => include_str!("../../../cuda/pieces.cu"),
            Family::Pooling => include_str!("../../../cuda/pooling.cu"),
            Family::Random => include_str!("../../../cuda/random.cu"),
            Family::RowNorms => include_str!("../../../cuda/row_norms.cu"),
            Family::Softmax => include_str!("../../../cuda/softmax.cu"),
        }
    }

    /// The text that is compiled; messages name the files it is made of.
    pub(super) fn text(self) -> String {
        let (name, source) = (self.name(), self.source());
        format!("#line 1 \"common.cuh\"\n{COMMON}\n#line 1 \"{name}.cu\"\n{source}")
    }

    /// Options of the compiler.
    pub(super) fn options(target: Target) -> Vec<String> {
        let architecture = match target {
            Target::Device((major, minor)) => format!("sm_{major}{minor}"),
            Target::Older((major, minor)) => format!("compute_{major}{minor}"),
        };
        let mut options = vec![format!("--gpu-architecture={architecture}")];
        options.extend(OPTIONS.lines().map(str::to_owned));
        options
    }
}
