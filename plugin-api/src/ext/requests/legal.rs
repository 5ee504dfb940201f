//! Legality rules: which requests and modifications are allowed at which mount point.
//!
//! The host and the test kit (`testing`) both use this table.

use super::Request;
use crate::ext::Collection;
use crate::{Phase, Point};

impl Request {
    /// Whether the request may be made at a mount point in a phase.
    ///
    /// ```
    /// use sconce_plugin_api::{Phase, Point, ext::Request};
    ///
    /// assert!(Request::SkipBatch.is_legal_at(Point::BeforeIter, Phase::Val));
    /// assert!(!Request::SkipBatch.is_legal_at(Point::AfterIter, Phase::Val));
    /// ```
    pub fn is_legal_at(self, point: Point, phase: Phase) -> bool {
        use Point as P;
        match self {
            Request::Stop | Request::StopAfterEpoch => {
                !matches!(point, P::AfterRun | P::OnException)
            }
            Request::SkipBatch => point == P::BeforeIter,
            Request::SkipUpdate => {
                phase == Phase::Train
                    && matches!(point, P::AfterLoss | P::AfterBackward | P::BeforeUpdate)
            }
            Request::SetLearningRate | Request::SetMomentum | Request::SetWeightDecay => {
                is_between(point) || matches!(point, P::BeforeUpdate | P::AfterLoadCheckpoint)
            }
            Request::ScaleLoss => phase == Phase::Train && point == P::AfterLoss,
            Request::SaveCheckpoint
            | Request::SaveInBackground
            | Request::SwapParameters
            | Request::SwapBack
            | Request::LoadParameters
            | Request::Freeze
            | Request::Generate
            | Request::SetAccumulation => is_between(point),
            Request::DeleteCheckpoint | Request::CopyCheckpoint => {
                is_between(point)
                    || matches!(point, P::AfterSaveCheckpoint | P::AfterLoadCheckpoint)
            }
            Request::PublishWeights => is_between(point) || point == P::AfterSaveCheckpoint,
            Request::ListenAtModules => is_between(point) || point == P::AfterLoadCheckpoint,
            Request::Validate => {
                let is_midst = matches!(point, P::BeforeRun | P::BeforeIter);
                phase == Phase::Train && is_between(point) && !is_midst
            }
            Request::RenewStatistics => match point {
                P::AfterIter => phase == Phase::Train,
                P::BeforeRun | P::BeforeIter => false,
                _ => is_between(point),
            },
            Request::RollBack => {
                phase == Phase::Train
                    && matches!(
                        point,
                        P::BeforeEpoch | P::AfterIter | P::AfterEpoch | P::AfterCycle
                    )
            }
            Request::LeaveOutPoint
            | Request::DeclareMetric
            | Request::DeclareAsks
            | Request::DeclareReads
            | Request::SelectModules => false,
        }
    }

    /// Why the request may not be made at a mount point; `None` if it may.
    ///
    /// `point` is `None` at a hook's creation.
    pub fn why_not_at(self, point: Option<Point>, phase: Phase) -> Option<String> {
        let name = self.name();
        let Some(point) = point else {
            return (!self.is_of_creation())
                .then(|| format!("`{name}` can't be asked for at creation"));
        };
        if self.is_legal_at(point, phase) {
            return None;
        }
        if self.is_of_creation() {
            return Some(format!("`{name}` is legal at creation alone"));
        }
        let places_in = |phase| -> Vec<&str> {
            let points = Point::ALL.iter().copied();
            let legal = points.filter(|point| self.is_legal_at(*point, phase));
            legal.map(Point::name).collect()
        };
        let (places, restriction) = match places_in(phase).as_slice() {
            [] => (places_in(Phase::Train).join(", "), ", in training alone"),
            places => (places.join(", "), ""),
        };
        Some(format!(
            "`{name}` is not legal at `{point}` ({phase}); it is at {places}{restriction}"
        ))
    }
}

impl Collection {
    /// Why the tensor of this name may not be modified at a mount point; `None` if it may.
    ///
    /// `point` is `None` at a hook's creation. For published tensors there are further rules: only their
    /// publisher may modify them, and not if they are kept for the batch only.
    ///
    /// ```
    /// use sconce_plugin_api::{Point, ext::Collection};
    ///
    /// let gradients = Collection::Gradients;
    /// assert_eq!(gradients.why_not_changed_at("fc1.weight", Some(Point::BeforeUpdate)), None);
    /// assert!(gradients.why_not_changed_at("fc1.weight", Some(Point::AfterUpdate)).is_some());
    /// ```
    pub fn why_not_changed_at(self, name: &str, point: Option<Point>) -> Option<String> {
        let Some(point) = point else {
            return Some("nothing can be changed at creation".to_owned());
        };
        let (what, points) = self.changeable(name);
        if points.contains(&point) {
            return None;
        }
        let names: Vec<&str> = points.iter().map(|point| point.name()).collect();
        let places = if names.is_empty() {
            "nowhere".to_owned()
        } else {
            format!("at {}", names.join(", "))
        };
        Some(format!(
            "{what} can't be changed at `{point}`; they can {places}"
        ))
    }

    /// Points at which the tensor of this name may be modified, and what messages call it.
    fn changeable(self, name: &str) -> (&'static str, &'static [Point]) {
        use Point as P;
        const PARAMETERS: &[Point] = &[
            P::BeforeRun,
            P::BeforeLoop,
            P::AfterLoop,
            P::BeforeEpoch,
            P::AfterEpoch,
            P::AfterCycle,
            P::AfterIter,
            P::AfterUpdate,
            P::AfterLoadCheckpoint,
        ];
        match (self, name) {
            (Collection::Parameters, _) => ("the parameters", PARAMETERS),
            (Collection::Gradients, _) => ("the gradients", &[P::AfterBackward, P::BeforeUpdate]),
            (Collection::Batch, "inputs") => ("the inputs", &[P::BeforeIter]),
            (Collection::Batch, "outputs") => ("the outputs", &[P::AfterForward]),
            (Collection::Published, _) => ("published tensors", Point::ALL),
            (Collection::Batch, _) => ("the batch's other tensors", &[]),
            (Collection::Module, _) => ("a module's tensors", &[]),
            (Collection::Optimizer, _) => ("the optimizer's tensors", &[]),
            (Collection::Checkpoint, _) => ("these tensors", &[]),
        }
    }
}

/// Points between iterations, at which no forward or backward pass is in progress.
fn is_between(point: Point) -> bool {
    use Point as P;
    matches!(
        point,
        P::BeforeRun
            | P::BeforeLoop
            | P::AfterLoop
            | P::BeforeEpoch
            | P::AfterEpoch
            | P::AfterCycle
            | P::BeforeIter
            | P::AfterIter
    )
}

/// A reserved tag, which always refers to the checkpoint saved last.
pub const LATEST: &str = "latest";

/// First part, up to the first `/`, of the names under which hooks publish a run's best checkpoint.
///
/// The value is kept for the run: `{"tag": "best", "metric": "val/loss", "value": 0.25}`. `sconce eval` and
/// `predict` of a run's directory use the checkpoint with that tag.
pub const BEST_CHECKPOINT: &str = "best_checkpoint";

/// Name under which the host publishes, at `after_run` of a completed or stopped run, which weights the run keeps.
///
/// `{"kept": {"checkpoint": "best-loss", "epoch": 5, "iteration": 500, "update": 500}, "last": {"val": {"epoch": 8, …,
/// "metrics": {"loss": 0.5}}}}`: `checkpoint` is null if the weights are those that training ended with, and `set` names
/// the averages that they are, if they are. The metrics that hooks read at `after_run` are those of these weights;
/// `last` has those measured last with other weights.
pub const KEPT_WEIGHTS: &str = "kept_weights";

/// Name under which the host publishes, at `after_run`, where the run's time went until then, in seconds.
///
/// It is the object `times` of `run.json`, whose entries add up to `seconds`.
pub const RUN_TIMES: &str = "run_times";

/// Checks a checkpoint's tag, which becomes part of a file name and must be valid on every system.
///
/// A tag has 1 to 128 ASCII letters, digits, `-`, `_` or `.`, does not start with a dot, and is not
/// [`LATEST`].
///
/// # Errors
///
/// A message that says what is wrong.
pub fn check_tag(tag: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if tag.is_empty() || tag.len() > 128 || tag.starts_with('.') || !tag.chars().all(is_plain) {
        return Err(format!(
            "a checkpoint's tag has 1 to 128 letters, digits, `-`, `_` or `.`, and no dot in \
             front, found {tag:?}"
        ));
    }
    if tag == LATEST {
        return Err(format!(
            "`{LATEST}` is not a tag: it always leads to the checkpoint that was saved last"
        ));
    }
    Ok(())
}

/// Longest name of a metric or published value, in bytes.
const LONGEST_NAME: usize = 256;

/// Checks the name of a metric or of a published value: 1 to 256 bytes, no control characters.
///
/// `what` is the subject of the message, e.g. "a metric's name".
///
/// # Errors
///
/// A message that says what is wrong.
pub fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "{what} has 1 to {LONGEST_NAME} bytes and no control characters, found {name:?}"
        ));
    }
    Ok(())
}

/// Checks a path from a manifest or a command line for `~` and `$VAR`, which only a shell expands.
///
/// Such a path would otherwise create a directory of that literal name.
///
/// # Errors
///
/// A message that says what to write instead.
pub fn check_path(path: &str) -> Result<(), String> {
    const ONLY: &str = "which only a shell replaces";
    if let Some(rest) = path.strip_prefix('~') {
        let home = std::env::var("HOME").ok();
        let home = home.filter(|_| rest.is_empty() || rest.starts_with('/'));
        let written = home.map_or_else(String::new, |home| format!(", as `{home}{rest}`"));
        return Err(format!(
            "`{path}` begins with `~`, {ONLY}: write the path out{written}; a name that really begins \
             so is `./{path}`"
        ));
    }
    if let Some(variable) = variable(path) {
        return Err(format!(
            "`{path}` has `{variable}` in it, {ONLY}: write the path out"
        ));
    }
    Ok(())
}

/// The first `$VAR` or `${VAR}` in a text.
fn variable(text: &str) -> Option<&str> {
    for (place, _) in text.match_indices('$') {
        let rest = text.get(place..)?;
        let name = rest.get(1..)?;
        if name.starts_with('{') {
            let end = rest.find('}').map_or(rest.len(), |end| end + 1);
            return rest.get(..end);
        }
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = name.find(|c| !is_part(c)).unwrap_or(name.len());
            return rest.get(..=end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_legal_somewhere_and_nothing_after_the_run() {
        let at_points = |request: &Request| !request.is_of_creation();
        for request in Request::ALL.into_iter().filter(at_points) {
            assert!(
                Point::ALL
                    .iter()
                    .any(|&point| request.is_legal_at(point, Phase::Train))
            );
            assert!(!request.is_legal_at(Point::AfterRun, Phase::Train));
            assert!(!request.is_legal_at(Point::OnException, Phase::Train));
        }
        assert!(!Request::SkipUpdate.is_legal_at(Point::AfterLoss, Phase::Val));
    }

    #[test]
    fn a_refused_request_is_told_the_points_of_its_phase() {
        for (request, point, phase, end) in [
            (
                Request::ScaleLoss,
                Point::AfterLoss,
                Phase::Val,
                "(val); it is at after_loss, in training alone",
            ),
            (
                Request::ScaleLoss,
                Point::AfterIter,
                Phase::Train,
                "(train); it is at after_loss",
            ),
            (
                Request::SkipBatch,
                Point::AfterIter,
                Phase::Val,
                "(val); it is at before_iter",
            ),
            (
                Request::RenewStatistics,
                Point::AfterIter,
                Phase::Val,
                "(val); it is at before_loop, after_loop, before_epoch, after_epoch, after_cycle",
            ),
        ] {
            let reason = request
                .why_not_at(Some(point), phase)
                .expect("it is refused");
            assert!(reason.ends_with(end), "{reason}");
        }
    }

    #[test]
    fn paths_are_not_a_shells_words() {
        for (path, words) in [
            ("~", "begins with `~`"),
            ("~/runs/x", "is `./~/runs/x`"),
            ("~x", "is `./~x`"),
            ("$HOME/x", "`$HOME`"),
            ("a/${USER}_1/x", "`${USER}`"),
            ("a/$b_1/x", "`$b_1`"),
            ("a/${b", "`${b`"),
        ] {
            let told = check_path(path).expect_err(path);
            assert!(told.contains(words), "{told}");
        }
        for path in ["", "./~x", "a~", "a/~b", "5$", "a$/b", "$1", "ü$"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn a_tag_is_a_part_of_a_files_name() {
        assert_eq!(check_tag("best-0.5_a"), Ok(()));
        for wrong in ["", ".hidden", "a/b", "a b", LATEST, &"x".repeat(129)] {
            assert!(check_tag(wrong).is_err(), "{wrong}");
        }
    }
}
