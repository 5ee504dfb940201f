//! Operations of models by kernels of ours, forward and backward; `measures`: sums for metrics.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod convolution;
pub(crate) mod cross_entropy;
pub(crate) mod embedding;
pub(crate) mod measures;
pub(crate) mod pooling;
pub(crate) mod random;
pub(crate) mod row_norm;
pub(crate) mod softmax;
