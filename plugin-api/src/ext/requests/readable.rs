//! What of a loop a hook may read or change, for the key `reads` of its metadata.
//!
//! Sconce's own trainer has all of it. Another loop may not: PyTorch's optimizers know no sample indices, a framework may
//! hide its loss. Such a loop refuses a hook before the run by what the hook's metadata list.

use crate::ext::Collection;

/// A collection of tensors, a tensor of the batch, or a number that not every loop has.
///
/// Nothing else needs a name here: published values and tensors, metrics, files and threads are the hooks' host's own; a
/// module's tensors and a checkpoint's entries come with the mount points that lend them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readable {
    /// The model's parameters and buffers ([`Collection::Parameters`]).
    Parameters,
    /// Their gradients ([`Collection::Gradients`]).
    Gradients,
    /// The tensors of the batch, whichever there are, and those whose names are in the hook's configuration.
    Batch,
    /// The batch's `inputs`.
    Inputs,
    /// The batch's `targets`.
    Targets,
    /// The indices of the batch's samples in their data set.
    SampleIndices,
    /// The model's `outputs`.
    Outputs,
    /// The optimizer's state ([`Collection::Optimizer`]).
    Optimizer,
    /// The batch's loss.
    Loss,
    /// The optimizer's groups with their learning rates and weight decays.
    Groups,
    /// What the processes that train together exchange (`sconce.ranks/1`, `gather`).
    Ranks,
    /// Tensors where they are, and the device that computes (`sconce.device/1`).
    Device,
    /// Forward passes of the model with other parameters (`sconce.forward/1`).
    Forward,
    /// The batch's loss, which a hook gives (`sconce.given-loss/1`).
    GivenLoss,
}

impl Readable {
    /// All that this version of the API knows.
    pub const ALL: [Readable; 14] = [
        Readable::Parameters,
        Readable::Gradients,
        Readable::Batch,
        Readable::Inputs,
        Readable::Targets,
        Readable::SampleIndices,
        Readable::Outputs,
        Readable::Optimizer,
        Readable::Loss,
        Readable::Groups,
        Readable::Ranks,
        Readable::Device,
        Readable::Forward,
        Readable::GivenLoss,
    ];

    /// The name in metadata and in `#[hook(reads = […])]`.
    pub const fn name(self) -> &'static str {
        match self {
            Readable::Parameters => "parameters",
            Readable::Gradients => "gradients",
            Readable::Batch => "batch",
            Readable::Inputs => "inputs",
            Readable::Targets => "targets",
            Readable::SampleIndices => "sample_indices",
            Readable::Outputs => "outputs",
            Readable::Optimizer => "optimizer",
            Readable::Loss => "loss",
            Readable::Groups => "groups",
            Readable::Ranks => "ranks",
            Readable::Device => "device",
            Readable::Forward => "forward",
            Readable::GivenLoss => "given_loss",
        }
    }

    /// What has this name; `None` if this version of the API knows nothing of it.
    pub fn from_name(name: &str) -> Option<Readable> {
        Readable::ALL.into_iter().find(|one| one.name() == name)
    }

    /// What a hook reads that takes this collection as a whole; `None` if that needs no name.
    pub const fn of(collection: Collection) -> Option<Readable> {
        match collection {
            Collection::Parameters => Some(Readable::Parameters),
            Collection::Gradients => Some(Readable::Gradients),
            Collection::Batch => Some(Readable::Batch),
            Collection::Optimizer => Some(Readable::Optimizer),
            Collection::Module | Collection::Published | Collection::Checkpoint => None,
        }
    }

    /// What a hook reads that takes the tensor of this name from a collection; `None` if that needs no name.
    ///
    /// Whoever lists [`Batch`](Readable::Batch) may take any tensor of the batch by its name.
    pub fn of_tensor(collection: Collection, name: &str) -> Option<Readable> {
        match (collection, name) {
            (Collection::Batch, "inputs") => Some(Readable::Inputs),
            (Collection::Batch, "targets") => Some(Readable::Targets),
            (Collection::Batch, "indices") => Some(Readable::SampleIndices),
            (Collection::Batch, "outputs") => Some(Readable::Outputs),
            (Collection::Batch, "loss") => Some(Readable::Loss),
            _ => Readable::of(collection),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_has_them() {
        for one in Readable::ALL {
            assert_eq!(Readable::from_name(one.name()), Some(one));
        }
        assert_eq!(Readable::from_name("tea"), None);
    }

    #[test]
    fn a_batchs_tensors_have_names_of_their_own() {
        let of = |name| Readable::of_tensor(Collection::Batch, name);
        assert_eq!(of("indices"), Some(Readable::SampleIndices));
        assert_eq!(of("loss"), Some(Readable::Loss));
        assert_eq!(of("mask"), Some(Readable::Batch));
        let published = Readable::of_tensor(Collection::Published, "inputs");
        assert_eq!(published, None);
    }
}
