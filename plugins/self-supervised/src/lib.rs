//! Learning without labels: hooks that give the loss of a network's outputs for several views of the same samples.
//!
//! | hook | compares |
//! |---|---|
//! | `simclr` | each view with the sample's other view, among all views of the batch |
//! | `barlow-twins` | columns of both views, which are to agree, and to differ from each other |
//! | `vicreg` | both views, with a variance for each column and no covariances |
//! | `moco` | each view with a momentum teacher's key for the other, among a queue of earlier keys |
//! | `byol` | a prediction from each view with the teacher's projection of the other |
//! | `swav` | each view with the balanced assignment of another to prototypes |
//! | `deep-cluster` | each view with its sample's cluster, found before each epoch |
//! | `dino` | the student's distributions with the teacher's of other views, centred and sharpened |
//! | `ibot` | as `dino` for class tokens, and masked patches with the teacher's distributions of the same patches |
//!
//! **Parts.** `losses`: values and gradients. `learner`: what is the same in all methods; of it `teacher`: an average of the parameters, and its
//! passes, `update_parts`: what an update's batches have given, over all ranks, and `collapse`: whether the outputs still say something.
//! `outputs`: the outputs as losses take them; `distillation`: options of `dino` and `ibot`; `queue`: earlier keys; `centre`: means of
//! a teacher's outputs; `prototypes`: a last layer of directions; `clustering`: k-means.
//!
//! **Flow.** `before_iter`: the teacher looks at its views. `after_forward`: the loss. `after_update`: teacher, queue and centre follow.
//! They are published tensors, so checkpoints hold them.

#![forbid(unsafe_code)]

mod barlow_twins;
mod byol;
mod centre;
mod clustering;
mod collapse;
mod deep_cluster;
mod dino;
mod distillation;
mod ibot;
mod learner;
pub mod losses;
mod moco;
mod outputs;
mod prototypes;
mod queue;
mod simclr;
mod swav;
mod teacher;
mod update_parts;
mod vicreg;

use barlow_twins::BarlowTwins;
use byol::Byol;
use deep_cluster::DeepCluster;
use dino::Dino;
use ibot::Ibot;
use moco::Moco;
use sconce_plugin_api::prelude::*;
use simclr::SimClr;
use swav::Swav;
use vicreg::VicReg;

export_plugin!(
    SimClr,
    BarlowTwins,
    VicReg,
    Moco,
    Byol,
    Dino,
    Swav,
    DeepCluster,
    Ibot
);
