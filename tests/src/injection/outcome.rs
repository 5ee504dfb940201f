//! How a disturbed run ends after it was continued.

use std::fmt;
use std::ops::AddAssign;

use super::tables::Difference;

/// How a disturbed run ends after it was continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With the files of an undisturbed run.
    Same,
    /// It couldn't be resumed, said what to do, and from its beginning it ended with them.
    StartedOver,
    /// As before, though an earlier cut of the same run could be resumed: progress that was on disk is lost.
    Lost(String),
    /// It ended with them, and with files that no undisturbed run has.
    Extra(String),
    /// It ended with them, and with temporary files, which the next start removes: right only if their removal failed.
    Unfinished(String),
    /// It ended with other files, the weights being the same.
    OtherFiles(String),
    /// As before, with a warning: the only checkpoint was of the middle of something.
    OtherFilesSaid(String),
    /// It ended with other weights and a warning: the kept ones could not be written, and others were the best that could.
    OtherWeightsSaid(String),
    /// It ended with other weights as if nothing were wrong.
    OtherWeights(String),
    /// It ended with an exit code that isn't the one documented for this, or without weights.
    Failed(String),
}

impl Outcome {
    /// Judges what a run left that ended with code 0. What it warned of may be missing.
    pub(super) fn of(difference: &Difference, has_warned: bool) -> Outcome {
        let list = difference.files.join(", ");
        if difference.weights && has_warned {
            Outcome::OtherWeightsSaid(list)
        } else if difference.weights {
            Outcome::OtherWeights(list)
        } else if !difference.files.is_empty() && has_warned {
            Outcome::OtherFilesSaid(list)
        } else if !difference.files.is_empty() {
            Outcome::OtherFiles(list)
        } else if !difference.extra.is_empty() && !has_warned {
            Outcome::Extra(difference.extra.join(", "))
        } else if !difference.unfinished.is_empty() && !has_warned {
            Outcome::Unfinished(difference.unfinished.join(", "))
        } else {
            Outcome::Same
        }
    }

    /// Whether nothing is wrong after a kill or a power failure.
    pub fn is_right(&self) -> bool {
        matches!(self, Outcome::Same | Outcome::StartedOver)
    }

    /// Whether nothing is wrong after a call that failed.
    pub fn is_right_after_error(&self) -> bool {
        let said = matches!(
            self,
            Outcome::OtherWeightsSaid(_) | Outcome::OtherFilesSaid(_) | Outcome::Unfinished(_)
        );
        said || self.is_right()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, detail) = match self {
            Outcome::Same => ("same", ""),
            Outcome::StartedOver => ("same from the beginning", ""),
            Outcome::Lost(detail) => ("PROGRESS LOST", detail.as_str()),
            Outcome::Extra(detail) => ("FILES LEFT OVER", detail.as_str()),
            Outcome::Unfinished(detail) => ("TEMPORARY FILES LEFT", detail.as_str()),
            Outcome::OtherFiles(detail) => ("OTHER FILES", detail.as_str()),
            Outcome::OtherFilesSaid(detail) => ("OTHER FILES, with a warning", detail.as_str()),
            Outcome::OtherWeightsSaid(detail) => ("OTHER WEIGHTS, with a warning", detail.as_str()),
            Outcome::OtherWeights(detail) => ("OTHER WEIGHTS", detail.as_str()),
            Outcome::Failed(detail) => ("FAILED", detail.as_str()),
        };
        f.write_str(what)?;
        if detail.is_empty() {
            return Ok(());
        }
        write!(f, ": {detail}")
    }
}

/// Counts of outcomes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// All.
    pub points: usize,
    /// Ended with what an undisturbed run leaves, some of them from the beginning.
    pub same: usize,
    /// Of those, the ones from the beginning.
    pub started_over: usize,
    /// Other weights, after a warning.
    pub warned: usize,
    /// Other files and the same weights, after a warning.
    pub other_files_said: usize,
    /// Other weights as if nothing were wrong.
    pub other_weights: usize,
    /// Everything else that is wrong.
    pub otherwise_wrong: usize,
}

impl Tally {
    /// Counts an outcome, which is right or wrong where it occurred.
    pub fn add(&mut self, outcome: &Outcome, is_right: bool) {
        self.points += 1;
        match outcome {
            Outcome::OtherWeightsSaid(_) => self.warned += 1,
            Outcome::OtherFilesSaid(_) => self.other_files_said += 1,
            Outcome::OtherWeights(_) => self.other_weights += 1,
            _ if !is_right => self.otherwise_wrong += 1,
            _ => self.same += 1,
        }
        self.started_over += usize::from(*outcome == Outcome::StartedOver);
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.points += other.points;
        self.same += other.same;
        self.started_over += other.started_over;
        self.warned += other.warned;
        self.other_files_said += other.other_files_said;
        self.other_weights += other.other_weights;
        self.otherwise_wrong += other.otherwise_wrong;
    }
}
