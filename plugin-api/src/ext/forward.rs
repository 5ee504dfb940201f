//! `sconce.forward/1`: forward passes of the model with other parameters, such as those of a teacher.

use super::extension;
use crate::abi::Refusal;
use crate::{Phase, Point};

/// Forward passes of the model on the batch, without gradient and with parameters that hooks choose. They are run before the call
/// returns, and legal at `before_iter` alone: later the batch's own pass refers to the parameters.
#[extension("sconce.forward/1")]
pub trait Forward {
    /// Runs the model on a view of the batch, and publishes a module's output for the batch, under `name`.
    ///
    /// The parameters are those of the published set `set` (tensors `SET/PARAMETER`; what it lacks is the model's own), or the current
    /// ones if it is empty. A batch of several views has their samples one view after the other; `view` is an index, or
    /// [`ForwardTable::WHOLE`] (`SCONCE_WHOLE`). `module` is a name, empty for the last. `mode` is the number of a [`ForwardMode`]. No hook is called
    /// meanwhile, and nothing else of the run changes. What this call of the hook has written to tensors may not be seen yet.
    #[wrapped]
    #[changes]
    fn run(&self, set: &str, view: u32, module: &str, mode: u32, name: &str)
    -> Result<(), Refusal>;
}

impl ForwardTable {
    /// As a view: all of them.
    pub const WHOLE: u32 = u32::MAX;
}

/// How layers compute that do not compute the same in training and in evaluations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum ForwardMode {
    /// As in evaluations: batch norms by their running statistics, without dropout.
    #[default]
    Evaluation = 0,
    /// As in training: batch norms by the statistics of the samples, which leave the running ones as they are, with dropout.
    Training = 1,
}

impl ForwardMode {
    /// The mode with this number; `None` if this version of the API doesn't know it.
    pub const fn from_number(number: u32) -> Option<ForwardMode> {
        match number {
            0 => Some(ForwardMode::Evaluation),
            1 => Some(ForwardMode::Training),
            _ => None,
        }
    }
}

/// Why a hook may not have the model run at a mount point; `None` if it may.
///
/// `point` is `None` at a hook's creation.
///
/// ```
/// use sconce_plugin_api::Point;
/// use sconce_plugin_api::ext::why_no_forward_at;
///
/// assert_eq!(why_no_forward_at(Some(Point::BeforeIter)), None);
/// assert!(why_no_forward_at(Some(Point::AfterForward)).is_some());
/// ```
pub fn why_no_forward_at(point: Option<Point>) -> Option<String> {
    not_at(point, Point::BeforeIter, "the model can't be run")
}

/// Why a hook may not give the batch's loss at a mount point; `None` if it may.
pub fn why_no_loss_at(point: Option<Point>, phase: Phase) -> Option<String> {
    let what = match phase {
        Phase::Predict => return Some("predictions have no loss".to_owned()),
        _ => "the loss can't be given",
    };
    not_at(point, Point::AfterForward, what)
}

fn not_at(point: Option<Point>, right: Point, what: &str) -> Option<String> {
    if point == Some(right) {
        return None;
    }
    let point = point.map_or("creation", Point::name);
    Some(format!("{what} at `{point}`; it can at {right}"))
}
