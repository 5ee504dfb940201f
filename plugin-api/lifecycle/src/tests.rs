use std::ops::Range;

use super::*;
use sconce_plugin_api::{Phase, Point};

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is set by the tests of one concern"
)]
/// A run without tensors, which writes down what it is asked to do.
struct Recorder {
    position: Position,
    /// Calls of hooks and work between them, with the iteration at that time.
    trace: Vec<String>,
    validation: usize,
    accumulate: u64,
    interval: Option<u64>,
    /// Iterations at which validations ended.
    validated_at: Vec<u64>,
    /// Whether what is saved is the position after the validation at that iteration.
    saves_validated: bool,
    /// Saved at this iteration's `after_iter`, and rolled back to, once, at the end of the epoch.
    saves_at: Option<u64>,
    saved: Option<Position>,
    rolls_back: bool,
    /// Whether a resumed run rolls back before it goes on.
    rolls_back_resuming: bool,
    interrupted_at: Option<u64>,
    /// Whether an interruption arrives at the training's `after_loop`.
    interrupted_at_end: bool,
    tests: bool,
    stops_at: Option<u64>,
    skipped_batches: Range<u64>,
    accumulated: u64,
    shown: u64,
}

impl Recorder {
    fn new(epochs: u64) -> Recorder {
        Recorder {
            position: Position::start(epochs),
            trace: Vec::new(),
            validation: 0,
            accumulate: 1,
            interval: None,
            validated_at: Vec::new(),
            saves_validated: false,
            saves_at: None,
            saved: None,
            rolls_back: false,
            rolls_back_resuming: false,
            interrupted_at: None,
            interrupted_at_end: false,
            tests: false,
            stops_at: None,
            skipped_batches: 0..0,
            accumulated: 0,
            shown: 0,
        }
    }

    fn note(&mut self, what: &str) {
        self.trace.push(what.to_owned());
    }

    /// The points called at this phase, and the work, as one text.
    fn run(&mut self) -> (Result<(), Leave<String>>, String) {
        let result = run(self);
        (result, std::mem::take(&mut self.trace).join(" "))
    }
}

type Done<T = ()> = Result<T, Leave<String>>;

impl RunDriver for Recorder {
    type Error = String;
    type Batches = Range<u64>;
    type Batch = u64;
    type Outputs = ();
    type Loss = ();
    type Recording = ();
    type Snapshot = ();

    fn position(&mut self) -> &mut Position {
        &mut self.position
    }

    fn batches_of(&self, phase: Phase) -> Option<EpochBatches> {
        let samples = match phase {
            Phase::Train => 5,
            _ => self.validation,
        };
        (samples > 0).then_some(EpochBatches { samples, size: 2 })
    }

    fn validates_first(&self) -> bool {
        false
    }

    fn validates_after(&self, epoch: u64) -> bool {
        self.interval.is_none() || epoch == self.position.epochs
    }

    fn validation_interval(&self) -> Option<u64> {
        self.interval
    }

    fn validate_within(&mut self) -> Result<(), Leave<Self::Error>> {
        validate(self, false)
    }

    fn tests(&self) -> bool {
        self.tests
    }

    fn accumulation(&self) -> (Option<u64>, u64) {
        (None, self.accumulate)
    }

    fn stopping(&self) -> Stopping {
        match self.stops_at {
            Some(iteration) if self.position.iteration >= iteration => Stopping::Now,
            _ => Stopping::No,
        }
    }

    fn call(&mut self, point: Point) -> Done {
        let again = if self.position.is_reopening {
            "(again)"
        } else {
            ""
        };
        let phase = match self.position.phase {
            Phase::Train => "",
            Phase::Test => "test:",
            _ => "val:",
        };
        let name = point.name().replace("before_", "<").replace("after_", ">");
        self.trace.push(format!("{phase}{name}{again}"));
        let is_saved = if self.saves_validated {
            point == Point::AfterLoop && self.position.phase == Phase::Val
        } else {
            point == Point::AfterIter && phase.is_empty()
        };
        if is_saved && self.saves_at == Some(self.position.iteration) {
            // What a checkpoint keeps: it is saved with the stage of training.
            self.saved = Some(Position {
                phase: Phase::Train,
                pass: self.position.training_pass(),
                evaluation: EvaluationState::default(),
                ..self.position.clone()
            });
        }
        if point == Point::AfterLoop && self.position.phase == Phase::Val {
            self.validated_at.push(self.position.iteration);
        }
        if point == Point::AfterLoop && phase.is_empty() && self.interrupted_at_end {
            self.interrupted_at = Some(self.position.iteration);
        }
        if point == Point::AfterEpoch && phase.is_empty() && self.rolls_back {
            self.rolls_back = false;
            self.position = self.saved.clone().ok_or("nothing saved".to_owned())?;
            return Err(Leave::RolledBack);
        }
        Ok(())
    }

    fn call_profile(&mut self, _phase: Phase) -> Done {
        Ok(())
    }

    fn begin_training(&mut self) -> Done {
        Ok(())
    }

    fn resume(&mut self) -> Done {
        if std::mem::take(&mut self.rolls_back_resuming) {
            return Err(Leave::RolledBack);
        }
        Ok(())
    }

    fn settle(&mut self) -> Done {
        Ok(())
    }

    fn serve_requests(&mut self) -> Done {
        self.check_interrupt()
    }

    fn check_interrupt(&mut self) -> Done {
        match self.interrupted_at {
            Some(iteration) if self.position.iteration == iteration => Err(Leave::Interrupted),
            _ => Ok(()),
        }
    }

    fn reset_pass(&mut self, _phase: Phase) {}

    fn begin_pass(&mut self) {}

    fn snapshot(&mut self) -> Done {
        Ok(())
    }

    fn restore_snapshot(&mut self, _snapshot: ()) -> Done {
        Ok(())
    }

    fn open(&mut self, phase: Phase, done: u64) -> Done<Range<u64>> {
        Ok(done..self.batches_of(phase).map_or(0, EpochBatches::count))
    }

    fn next_batch(&mut self, batches: &mut Range<u64>) -> Done<Option<u64>> {
        Ok(batches.next())
    }

    fn size_of(&self, _batch: &u64) -> u64 {
        2
    }

    fn show_batch(&mut self, _batch: &u64) {}

    fn end_batch(&mut self) {}

    fn take_skip_batch(&mut self) -> bool {
        self.skipped_batches.contains(&self.position.iteration)
    }

    fn take_skip_update(&mut self) -> Done<bool> {
        Ok(false)
    }

    fn check_training_batch(&mut self) -> Done {
        Ok(())
    }

    fn record(&mut self) {}

    fn forward(&mut self, _batch: &u64, _phase: Phase) -> Done {
        Ok(())
    }

    fn measure(&mut self, _batch: &u64, _outputs: &(), _phase: Phase) -> Done {
        self.position.pass.loss = Some(1.0);
        Ok(())
    }

    fn backward(&mut self, _batch: &u64, _loss: (), _fraction: f64) -> Done {
        Ok(())
    }

    fn accumulate(&mut self) -> Done {
        self.accumulated += 1;
        Ok(())
    }

    fn show_accumulated(&mut self) -> Done<bool> {
        self.shown = std::mem::take(&mut self.accumulated);
        Ok(self.shown > 0)
    }

    fn step(&mut self, is_skipped: bool) -> Done<bool> {
        let text = format!("step({})", self.shown);
        self.note(&text);
        Ok(!is_skipped)
    }

    fn advance(&mut self) {}

    fn save_delayed(&mut self) -> Done {
        Ok(())
    }
}

const BATCH: &str = "<iter >forward >loss >backward";

#[test]
fn an_epoch_and_its_validation_call_their_points_in_order() {
    let mut recorder = Recorder::new(1);
    recorder.validation = 1;
    let (result, trace) = recorder.run();
    result.expect("nothing fails");
    let iteration = format!("{BATCH} <update step(1) >update >iter");
    let validation =
        "val:<loop val:<epoch val:<iter val:>forward val:>loss val:>iter val:>epoch val:>loop";
    assert_eq!(
        trace,
        format!(
            "<run <loop <epoch {iteration} {iteration} {iteration} >epoch {validation} >cycle >loop"
        )
    );
    let position = recorder.position;
    assert_eq!((position.epoch, position.iteration), (1, 3));
    assert_eq!((position.update, position.samples), (3, 5));
    assert_eq!(
        (position.ordinal, position.stage),
        (1, TrainingStage::Epoch)
    );
}

#[test]
fn an_update_follows_the_last_of_its_batches_and_is_left_out_without_gradients() {
    let mut recorder = Recorder::new(1);
    recorder.accumulate = 2;
    recorder.skipped_batches = 2..3;
    let (result, trace) = recorder.run();
    result.expect("nothing fails");
    assert_eq!(
        trace,
        format!(
            "<run <loop <epoch {BATCH} >iter {BATCH} <update step(2) >update >iter <iter >iter \
             >epoch >cycle >loop"
        )
    );
    assert_eq!(recorder.position.update, 1);
}

#[test]
fn validations_by_iterations_follow_updates_and_are_not_repeated_by_a_rollback() {
    let iterations = |recorder: &Recorder| recorder.validated_at.clone();
    // Three batches an epoch, in two updates where two batches make one.
    for (interval, accumulate, expected) in [
        (1, 1, vec![1, 2, 3, 4, 5, 6]),
        (2, 1, vec![2, 4, 6]),
        (4, 1, vec![4, 6]),
        (100, 1, vec![6]),
        (1, 2, vec![2, 3, 5, 6]),
        (4, 2, vec![5, 6]),
    ] {
        let mut recorder = Recorder::new(2);
        recorder.validation = 1;
        recorder.interval = Some(interval);
        recorder.accumulate = accumulate;
        let (result, _) = recorder.run();
        result.expect("nothing fails");
        assert_eq!(iterations(&recorder), expected, "{interval} {accumulate}");
    }
    // Saved before the validation after iteration 2, which is repeated, and after it, where it isn't.
    for (saves_validated, expected) in [(false, vec![2, 2]), (true, vec![2])] {
        let mut recorder = Recorder::new(1);
        recorder.validation = 1;
        recorder.interval = Some(2);
        recorder.saves_at = Some(2);
        recorder.saves_validated = saves_validated;
        recorder.rolls_back = true;
        let (result, _) = recorder.run();
        result.expect("nothing fails");
        let within: Vec<u64> = iterations(&recorder)
            .into_iter()
            .filter(|at| *at < 3)
            .collect();
        assert_eq!(within, expected);
    }
}

#[test]
fn a_rollback_leaves_the_loops_and_reopens_the_epoch_at_the_saved_batch() {
    let mut recorder = Recorder::new(1);
    recorder.saves_at = Some(2);
    recorder.rolls_back = true;
    let (result, trace) = recorder.run();
    result.expect("nothing fails");
    let iteration = format!("{BATCH} <update step(1) >update >iter");
    assert_eq!(
        trace,
        format!(
            "<run <loop <epoch {iteration} {iteration} {iteration} >epoch <epoch(again) {iteration} \
             >epoch >cycle >loop"
        )
    );
    assert_eq!(recorder.position.iteration, 3);
}

#[test]
fn a_resumed_run_that_rolls_back_at_once_goes_on_from_there() {
    let mut recorder = Recorder::new(1);
    let (_, straight) = recorder.run();
    let mut recorder = Recorder::new(1);
    recorder.rolls_back_resuming = true;
    let (result, trace) = recorder.run();
    result.expect("nothing fails");
    assert_eq!(trace, straight);
}

#[test]
fn an_interruption_leaves_everything_at_once() {
    let mut recorder = Recorder::new(2);
    recorder.interrupted_at = Some(1);
    let (result, trace) = recorder.run();
    assert!(matches!(result, Err(Leave::Interrupted)));
    let iteration = format!("{BATCH} <update step(1) >update >iter");
    assert_eq!(trace, format!("<run <loop <epoch {iteration}"));
    assert_eq!(recorder.position.consistency, Consistency::Between);
}

#[test]
fn an_interruption_after_the_training_leaves_out_the_test() {
    for is_interrupted in [false, true] {
        let mut recorder = Recorder::new(1);
        recorder.validation = 1;
        recorder.tests = true;
        recorder.interrupted_at_end = is_interrupted;
        let (result, trace) = recorder.run();
        assert_eq!(matches!(result, Err(Leave::Interrupted)), is_interrupted);
        assert_eq!(!trace.contains("test:"), is_interrupted, "{trace}");
    }
}

#[test]
fn a_stop_ends_the_pass_and_the_cycle_without_counting_the_epoch() {
    let mut recorder = Recorder::new(2);
    recorder.stops_at = Some(1);
    let (result, trace) = recorder.run();
    result.expect("nothing fails");
    let iteration = format!("{BATCH} <update step(1) >update >iter");
    assert_eq!(
        trace,
        format!("<run <loop <epoch {iteration} >epoch >cycle >loop")
    );
    assert_eq!((recorder.position.epoch, recorder.position.trained), (0, 1));
}

#[test]
fn the_view_shows_the_position() {
    let mut position = Position::start(3);
    position.phase = Phase::Val;
    position.pass.loss = Some(0.5);
    position.pass.batch = 7;
    position.evaluation.is_initial = true;
    let mut view = sconce_plugin_api::abi::ViewAbi::EMPTY;
    position.show_in(&mut view);
    assert_eq!((view.phase, view.epochs, view.batch), (1, 3, 7));
    assert_eq!(
        view.flags,
        sconce_plugin_api::abi::ViewAbi::HAS_LOSS | sconce_plugin_api::abi::ViewAbi::INITIAL
    );
    assert!((view.loss - 0.5).abs() < f64::EPSILON);
}
