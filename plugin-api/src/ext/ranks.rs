//! `sconce.ranks/1`: the processes that train together, and what their hooks exchange.

use super::{Collection, Request, extension};
use crate::abi::Refusal;
use crate::{Phase, Point};

/// The processes that train together. What their hooks exchange is collective: a hook that runs on all ranks calls `gather` on all of
/// them in the same call and with the same length. It is declared as one of all ranks, or its manifest entry says `"ranks": "all"`.
/// Points, in training alone: `before_run`, `after_load_checkpoint`, `epoch_profile`, `before_` and `after_` of `loop`, `epoch`, `iter`
/// and `update`, `after_cycle`.
#[extension("sconce.ranks/1")]
pub trait Ranks {
    /// Number of this process among those that train together, from 0.
    #[local]
    fn rank(&self) -> u32;

    /// Number of processes that train together, at least 1.
    #[local]
    #[or(1)]
    fn size(&self) -> u32;

    /// 1 if the current training batch repeats one of rank 0, because there is none left for this rank; else 0.
    ///
    /// Its results are dropped: a hook that counts or sums leaves it out.
    #[ahead]
    #[or(0)]
    fn is_repeated(&self) -> bool;

    /// Copies every rank's bytes `own` to `all` on all ranks, in the order of ranks; `all` has as many bytes for each rank.
    ///
    /// Legal for hooks that run on all ranks, where [`why_no_gather_at`] says so.
    #[local]
    fn gather(&self, own: &[u8], all: &mut [u8]) -> Result<(), Refusal>;
}

/// Points of the training that all ranks reach together, whatever their batches are.
///
/// Between `before_iter` and `before_update` they don't: a batch may be skipped on one rank alone.
const MEETINGS: [Point; 12] = [
    Point::BeforeRun,
    Point::BeforeLoop,
    Point::AfterLoop,
    Point::BeforeEpoch,
    Point::AfterEpoch,
    Point::AfterCycle,
    Point::BeforeIter,
    Point::AfterIter,
    Point::BeforeUpdate,
    Point::AfterUpdate,
    Point::AfterLoadCheckpoint,
    Point::EpochProfile,
];

/// Why a hook may not gather at a mount point; `None` if it may.
///
/// `point` is `None` at a hook's creation.
///
/// ```
/// use sconce_plugin_api::ext::why_no_gather_at;
/// use sconce_plugin_api::{Phase, Point};
///
/// assert_eq!(why_no_gather_at(Some(Point::AfterEpoch), Phase::Train), None);
/// assert!(why_no_gather_at(Some(Point::AfterLoss), Phase::Train).is_some());
/// assert!(why_no_gather_at(Some(Point::AfterEpoch), Phase::Val).is_some());
/// ```
pub fn why_no_gather_at(point: Option<Point>, phase: Phase) -> Option<String> {
    let Some(point) = point else {
        return Some("ranks exchange nothing at creation: gather at before_run".to_owned());
    };
    if phase == Phase::Train && MEETINGS.contains(&point) {
        return None;
    }
    let names = MEETINGS.map(Point::name).join(", ");
    Some(format!(
        "ranks exchange nothing at `{point}` ({phase}), which they may reach separately; keep it until one of these \
         points of the training: {names}"
    ))
}

/// Why a hook may not gather that runs on the first rank alone.
pub fn why_not_on_first(hook: &str) -> String {
    on_first_alone(hook, "gathers")
}

/// Why a hook that runs on the first rank alone may not change a tensor of this collection while several processes train
/// together; `None` if it may: all ranks must go on with the same parameters and gradients.
pub fn why_not_changed_on_first(hook: &str, collection: Collection) -> Option<String> {
    let what = match collection {
        Collection::Parameters => "changes parameters",
        Collection::Gradients => "changes gradients",
        Collection::Batch => "changes a batch's tensors",
        Collection::Optimizer => "changes the optimizer's tensors",
        Collection::Module | Collection::Published | Collection::Checkpoint => return None,
    };
    Some(on_first_alone(hook, what))
}

/// Why a hook that runs on the first rank alone may not make a request while several processes train together; `None` if
/// it may. Most requests reach all ranks, but a batch's loss scale comes too late for the batches of the others.
pub fn why_not_asked_on_first(hook: &str, request: Request) -> Option<String> {
    (request == Request::ScaleLoss).then(|| on_first_alone(hook, "scales the loss"))
}

/// Why a hook that runs on the first rank alone may not give the loss while several processes train together: each has batches of its
/// own.
pub fn why_no_loss_on_first(hook: &str) -> String {
    on_first_alone(hook, "gives the loss")
}

fn on_first_alone(hook: &str, what: &str) -> String {
    format!(
        "the hook `{hook}` {what} but runs on the first rank alone: \"ranks\": \"all\" in its entry makes it run on all"
    )
}
