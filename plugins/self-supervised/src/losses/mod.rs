//! Losses of several views of the same samples, each with its gradient of the student's outputs.
//!
//! | loss | compares |
//! |---|---|
//! | [`NtXent`] | each view with the sample's other view, among all views of the batch (`SimCLR`) |
//! | [`InfoNce`] | queries with their keys, among a queue of earlier keys (`MoCo`) |
//! | [`Byol`] | predictions with the teacher's projections of the other view, without negatives |
//! | [`Dino`] | the student's distributions with the teacher's of other views, centred and sharpened |
//! | [`Ibot`] | the same of class tokens, and the distributions of masked patches with the teacher's of the same view |
//! | [`Swav`] | scores of prototypes with the balanced assignments of other views |
//! | [`Clusters`] | scores of prototypes with the clusters of samples (`DeepCluster`) |
//! | [`BarlowTwins`] | the correlations of all pairs of dimensions with the identity |
//! | [`VicReg`] | both views, with a variance for each dimension and no covariances |
//!
//! Outputs are row-major, (views · samples, dimensions), view-major: all samples of the first view come before those
//! of the second. A loss takes [`Rows`], writes the gradient over a slice of as many elements, and returns its value.
//! Everything between is in `f64` and in a fixed order, so equal outputs give equal bits. The buffers of a loss are
//! kept from call to call.
//!
//! Parts: `rows` the outputs; `unit` rows of length 1; `softmax`, with cross-entropy; `standard` columns of mean 0;
//! `product` of matrices.

mod barlow_twins;
mod byol;
mod dino;
mod ibot;
mod info_nce;
mod nt_xent;
mod product;
mod prototypes;
mod rows;
mod softmax;
mod standard;
mod swav;
#[cfg(test)]
mod tests;
mod unit;
mod vicreg;

pub use barlow_twins::BarlowTwins;
pub use byol::Byol;
pub use dino::{Dino, Sharpening, move_centre};
pub use ibot::{Ibot, IbotValue, TokenSharpening, Tokens};
pub use info_nce::InfoNce;
pub use nt_xent::NtXent;
pub use prototypes::{Clusters, scores};
pub use rows::{Rows, WrongShape};
pub use swav::{Swav, SwavConfig, balanced};
pub use vicreg::{VicReg, VicRegWeights};
