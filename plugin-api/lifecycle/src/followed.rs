//! A run whose loop belongs to somebody else: its owner says which step comes next; the steps are checked against the lifecycle's
//! order, and counted as [`run`](crate::run) counts them.
//!
//! **States.** A run is created, begun, training (between epochs), in a pass, and ended; in a pass, between batches or at a mount
//! point of one ([`Place`]). An evaluation begins outside a training batch, and ends where it began.

use std::fmt;

use sconce_plugin_api::{Phase, Point};

use super::batches::update_of;
use super::position::{Consistency, PassCounters, Position, TrainingStage};
use super::{EpochStart, Round};

/// Mount points of a training batch, in order.
const TRAINING: [Point; 7] = [
    Point::BeforeIter,
    Point::AfterForward,
    Point::AfterLoss,
    Point::AfterBackward,
    Point::BeforeUpdate,
    Point::AfterUpdate,
    Point::AfterIter,
];

/// Mount points of a batch that changes no parameters, in order.
const EVALUATION: [Point; 4] = [
    Point::BeforeIter,
    Point::AfterForward,
    Point::AfterLoss,
    Point::AfterIter,
];

/// Where a followed run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before `before_run`.
    Created,
    /// After `before_run`, before or after the training.
    Begun,
    /// In the training, between epochs.
    Training,
    /// In a pass over a phase's data, between batches.
    Pass,
    /// In a batch, after this mount point.
    Batch(Point),
    /// After `after_run`.
    Ended,
}

/// A step out of the lifecycle's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfOrder(String);

impl fmt::Display for OutOfOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OutOfOrder {}

/// A run that is followed, step by step.
#[derive(Clone, Debug)]
pub struct Followed {
    position: Position,
    place: Place,
    /// Mount points that the loop never comes by.
    absent: Vec<Point>,
    /// Batches per update that the loop has planned.
    accumulate: u64,
    /// Where an evaluation in progress began.
    enclosing: Option<Place>,
    /// Whether the batch in progress is skipped.
    is_skipped: bool,
    /// Whether the pass in progress is as long as it says.
    is_length_known: bool,
}

impl Followed {
    /// A run of this many epochs with this many batches per update, whose loop does not come by the mount points in `absent`.
    pub fn new(epochs: u64, accumulate: u64, absent: &[Point]) -> Followed {
        Followed {
            position: Position::start(epochs),
            place: Place::Created,
            absent: absent.to_vec(),
            accumulate: accumulate.max(1),
            enclosing: None,
            is_skipped: false,
            is_length_known: false,
        }
    }

    /// The position, as hooks see it.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The position, for what is not counted here: losses, and what a checkpoint restores.
    pub fn position_mut(&mut self) -> &mut Position {
        &mut self.position
    }

    /// Where the run is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The run begins: `before_run` is due.
    ///
    /// # Errors
    ///
    /// If it has begun.
    pub fn begin_run(&mut self) -> Result<(), OutOfOrder> {
        self.expect(Place::Created, "the run begins")?;
        self.place = Place::Begun;
        Ok(())
    }

    /// The training begins: `before_loop` is due.
    ///
    /// # Errors
    ///
    /// If the run has not begun, or the training has.
    pub fn begin_training(&mut self) -> Result<(), OutOfOrder> {
        self.expect(Place::Begun, "the training begins")?;
        self.position.phase = Phase::Train;
        self.position.consistency = Consistency::Between;
        self.place = Place::Training;
        Ok(())
    }

    /// A pass over the training data begins, of this many batches if that is known: `before_epoch` is due. Returns the counters
    /// with which the epoch began, if it goes on after a checkpoint within it: see [`show_start`](Followed::show_start).
    ///
    /// # Errors
    ///
    /// If the training has not begun, or is in a pass.
    pub fn begin_epoch(&mut self, batches: Option<u64>) -> Result<Option<EpochStart>, OutOfOrder> {
        self.expect(Place::Training, "an epoch begins")?;
        let position = &mut self.position;
        let begun = position.begun.filter(|_| position.trained > 0);
        if begun.is_none() {
            position.ordinal = 0;
        }
        let finished = position.trained;
        position.stage = TrainingStage::Epoch;
        position.begin_pass(batches.unwrap_or(0));
        position.pass.batch = finished;
        position.begun = begun.or_else(|| Some(position.epoch_start()));
        self.is_length_known = batches.is_some();
        self.place = Place::Pass;
        Ok(begun)
    }

    /// Shows the counters with which an epoch began while `before_epoch` is called for it again; the result restores those of
    /// now, by [`show_again`](Followed::show_again).
    pub fn show_start(&mut self, start: EpochStart) -> (EpochStart, u64, PassCounters) {
        let position = &mut self.position;
        let now = (position.epoch_start(), position.ordinal, position.pass);
        position.show_start(start);
        position.is_reopening = true;
        now
    }

    /// Shows the counters of now, after [`show_start`](Followed::show_start).
    pub fn show_again(&mut self, (now, ordinal, pass): (EpochStart, u64, PassCounters)) {
        let position = &mut self.position;
        position.is_reopening = false;
        position.show_start(now);
        position.ordinal = ordinal;
        position.pass = pass;
    }

    /// A batch of this many samples begins: `before_iter` is due. `updates`: whether an update follows it; if the loop does not
    /// say, that follows from the number of batches per update, which `requested` overrides.
    ///
    /// # Errors
    ///
    /// If there is no pass, or a batch in progress.
    pub fn begin_batch(
        &mut self,
        samples: u64,
        updates: Option<bool>,
        requested: Option<u64>,
    ) -> Result<(), OutOfOrder> {
        self.expect(Place::Pass, "a batch begins")?;
        self.is_skipped = false;
        self.place = Place::Batch(Point::BeforeIter);
        let position = &mut self.position;
        let pass = &mut position.pass;
        pass.batch_size = samples;
        pass.loss = None;
        pass.loss_waits = false;
        if position.phase != Phase::Train {
            return Ok(());
        }
        let batch = position.trained;
        let batches = if self.is_length_known {
            pass.batches
        } else {
            u64::MAX
        };
        if !position.update_batches.contains(&batch) {
            position.update_batches = update_of(batch, batches, requested, self.accumulate);
        }
        let update = &position.update_batches;
        pass.updates = updates.unwrap_or(batch + 1 >= update.end);
        position.round = Round {
            number: position.number,
            index: batch.saturating_sub(update.start),
            is_repeated: false,
            finishes: 1,
            samples,
        };
        position.consistency = Consistency::Batch;
        Ok(())
    }

    /// The batch in progress is skipped: its end comes next.
    pub fn skip_batch(&mut self) {
        self.is_skipped = true;
    }

    /// The loop has come by a mount point of the batch in progress.
    ///
    /// # Errors
    ///
    /// If one that comes before it is missing, or it was passed before.
    pub fn reach(&mut self, point: Point) -> Result<(), OutOfOrder> {
        self.check(point)?;
        self.place = Place::Batch(point);
        let position = &mut self.position;
        match point {
            // From here on, the batch is part of its update.
            Point::AfterBackward | Point::BeforeUpdate => {
                position.consistency = Consistency::Torn;
            }
            Point::AfterUpdate => {
                position.consistency = Consistency::Stepped;
                position.update += 1;
            }
            Point::AfterIter => self.finish_batch(),
            _ => {}
        }
        Ok(())
    }

    /// The batch is over once the hooks of `after_iter` have been called.
    pub fn end_batch(&mut self) {
        if self.place == Place::Batch(Point::AfterIter) {
            self.place = Place::Pass;
        }
    }

    fn finish_batch(&mut self) {
        let position = &mut self.position;
        if position.phase == Phase::Train {
            position.count_iteration();
            position.consistency = Consistency::Between;
        } else {
            position.pass.batch += 1;
        }
    }

    /// The pass over the training data ends: `after_epoch` is due. `is_complete`: all batches were trained; if the loop does not
    /// say, as many as it has announced.
    ///
    /// # Errors
    ///
    /// If there is no pass, or a batch in progress.
    pub fn end_epoch(&mut self, is_complete: Option<bool>) -> Result<(), OutOfOrder> {
        self.expect_pass(Phase::Train, "the epoch ends")?;
        let position = &mut self.position;
        let trained_all = !self.is_length_known || position.trained >= position.pass.batches;
        if is_complete.unwrap_or(trained_all) {
            position.finish_epoch();
        }
        position.pass.batch_size = 0;
        self.place = Place::Training;
        Ok(())
    }

    /// The epoch and its validation are over: `after_cycle` is due.
    ///
    /// # Errors
    ///
    /// If the training is not between epochs.
    pub fn end_cycle(&mut self) -> Result<(), OutOfOrder> {
        self.expect(Place::Training, "the cycle ends")?;
        self.position.stage = TrainingStage::Epoch;
        Ok(())
    }

    /// The training ends: `after_loop` is due.
    ///
    /// # Errors
    ///
    /// If the training is not between epochs.
    pub fn end_training(&mut self) -> Result<(), OutOfOrder> {
        self.expect(Place::Training, "the training ends")?;
        self.place = Place::Begun;
        Ok(())
    }

    /// An evaluation begins, of this many batches if that is known: `before_loop` and `before_epoch` are due.
    ///
    /// # Errors
    ///
    /// If the run has not begun, or a batch or an evaluation is in progress.
    pub fn begin_evaluation(&mut self, phase: Phase, is_requested: bool) -> Result<(), OutOfOrder> {
        let is_between = matches!(self.place, Place::Begun | Place::Training | Place::Pass);
        if !is_between || self.enclosing.is_some() {
            return Err(self.misplaced("an evaluation begins"));
        }
        self.enclosing = Some(self.place);
        let position = &mut self.position;
        position.evaluation.enclosing = Some(position.pass);
        let is_first = position.iteration == 0 && self.place == Place::Training;
        position.evaluation.is_initial = phase == Phase::Val && is_first;
        position.evaluation.is_requested = is_requested || self.place == Place::Pass;
        position.evaluation.is_under_way = true;
        position.phase = phase;
        self.place = Place::Pass;
        Ok(())
    }

    /// The evaluation's pass begins: between its `before_loop` and its `before_epoch`.
    pub fn begin_evaluation_pass(&mut self, batches: Option<u64>) {
        self.position.begin_pass(batches.unwrap_or(0));
    }

    /// The evaluation's pass ends: `after_epoch` is due, then [`count_evaluation`](Followed::count_evaluation) and `after_loop`.
    ///
    /// # Errors
    ///
    /// If no evaluation is in progress, or a batch of it is.
    pub fn end_evaluation_pass(&mut self) -> Result<(), OutOfOrder> {
        if self.enclosing.is_none() || self.place != Place::Pass {
            return Err(self.misplaced("the evaluation ends"));
        }
        self.position.pass.batch_size = 0;
        Ok(())
    }

    /// From here on, checkpoints record that the evaluation is finished.
    pub fn count_evaluation(&mut self) {
        self.position.count_evaluation();
    }

    /// The evaluation is over once the hooks of its `after_loop` have been called.
    pub fn end_evaluation(&mut self) {
        let Some(place) = self.enclosing.take() else {
            return;
        };
        let position = &mut self.position;
        let is_counted = position.phase == Phase::Val && !position.evaluation.is_initial;
        position.ordinal += u64::from(is_counted);
        position.evaluation.is_uncounted = false;
        position.evaluation.is_initial = false;
        position.evaluation.is_requested = false;
        position.phase = Phase::Train;
        if let Some(pass) = position.evaluation.enclosing.take() {
            position.pass = pass;
        }
        self.place = place;
    }

    /// The run ends, wherever it is: `after_run` is due.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn end_run(&mut self) -> Result<(), OutOfOrder> {
        if self.place == Place::Ended {
            return Err(self.misplaced("the run ends"));
        }
        self.position.phase = Phase::Train;
        self.place = Place::Ended;
        Ok(())
    }

    /// The first mount point of the batch in progress that is still to come, and can't be left out.
    pub fn missing(&self) -> Option<Point> {
        let Place::Batch(last) = self.place else {
            return None;
        };
        let chain = self.chain();
        let place = chain.iter().position(|point| *point == last)?;
        chain
            .iter()
            .skip(place + 1)
            .copied()
            .find(|point| self.is_needed(*point) || *point == Point::AfterIter)
    }

    fn chain(&self) -> &'static [Point] {
        match self.position.phase {
            Phase::Train => &TRAINING,
            _ => &EVALUATION,
        }
    }

    /// Whether a batch can't end without this mount point.
    fn is_needed(&self, point: Point) -> bool {
        let is_of_update = matches!(point, Point::BeforeUpdate | Point::AfterUpdate);
        !is_of_update && !self.is_skipped && !self.absent.contains(&point)
    }

    fn check(&self, point: Point) -> Result<(), OutOfOrder> {
        let Place::Batch(last) = self.place else {
            return Err(self.misplaced(&format!("`{point}` comes")));
        };
        let chain = self.chain();
        let at = |wanted: Point| chain.iter().position(|point| *point == wanted);
        let (Some(from), Some(to)) = (at(last), at(point)) else {
            let phase = self.position.phase.name();
            return Err(self.error(&format!("a batch of `{phase}` has no `{point}`")));
        };
        if to <= from {
            return Err(self.error(&format!("`{point}` comes after `{last}`")));
        }
        let mut between = chain.iter().take(to).skip(from + 1);
        if let Some(missing) = between.find(|point| self.is_needed(**point)) {
            let what = match point {
                Point::AfterIter => "the batch ended".to_owned(),
                _ => format!("`{point}` came"),
            };
            return Err(self.error(&format!(
                "{what} after `{last}`: `{missing}` was not called"
            )));
        }
        let is_update_open =
            last == Point::BeforeUpdate || self.absent.contains(&Point::BeforeUpdate);
        if point == Point::AfterUpdate && !is_update_open {
            return Err(self.error(&format!(
                "`after_update` came after `{last}`: `before_update` was not called"
            )));
        }
        Ok(())
    }

    fn expect(&self, place: Place, what: &str) -> Result<(), OutOfOrder> {
        if self.place == place {
            return Ok(());
        }
        Err(self.misplaced(what))
    }

    fn expect_pass(&self, phase: Phase, what: &str) -> Result<(), OutOfOrder> {
        if self.position.phase == phase && self.enclosing.is_none() {
            return self.expect(Place::Pass, what);
        }
        Err(self.misplaced(what))
    }

    fn misplaced(&self, what: &str) -> OutOfOrder {
        let place = match self.place {
            Place::Created => "before the run has begun".to_owned(),
            Place::Begun => "outside of the training".to_owned(),
            Place::Training => "between two epochs".to_owned(),
            Place::Pass if self.enclosing.is_some() => {
                format!("within a pass of `{}`", self.position.phase.name())
            }
            Place::Pass => "within an epoch, between two batches".to_owned(),
            Place::Batch(last) => match self.missing() {
                Some(missing) => {
                    format!("within a batch, after `{last}`: `{missing}` was not called")
                }
                None => format!("within a batch, after `{last}`"),
            },
            Place::Ended => "after the run has ended".to_owned(),
        };
        self.error(&format!("{what} {place}"))
    }

    fn error(&self, problem: &str) -> OutOfOrder {
        let Position {
            epoch, iteration, ..
        } = self.position;
        OutOfOrder(format!("epoch {epoch}, iteration {iteration}: {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_epoch(batches: u64, accumulate: u64) -> Followed {
        let mut run = Followed::new(2, accumulate, &[]);
        run.begin_run().expect("begun");
        run.begin_training().expect("training");
        run.begin_epoch(Some(batches)).expect("an epoch");
        run
    }

    fn said(result: Result<(), OutOfOrder>) -> String {
        result.expect_err("out of order").to_string()
    }

    #[test]
    fn what_is_left_out_is_named() {
        let mut run = in_epoch(3, 1);
        assert_eq!(
            said(run.reach(Point::AfterLoss)),
            "epoch 0, iteration 0: `after_loss` comes within an epoch, between two batches"
        );
        run.begin_batch(4, None, None).expect("a batch");
        assert_eq!(
            said(run.reach(Point::AfterLoss)),
            "epoch 0, iteration 0: `after_loss` came after `before_iter`: `after_forward` was not called"
        );
        run.reach(Point::AfterForward).expect("forward");
        run.reach(Point::AfterLoss).expect("loss");
        assert_eq!(run.missing(), Some(Point::AfterBackward));
        let next = run.begin_batch(4, None, None);
        assert_eq!(
            said(next),
            "epoch 0, iteration 0: a batch begins within a batch, after `after_loss`: `after_backward` was not called"
        );
        assert_eq!(
            said(run.reach(Point::AfterIter)),
            "epoch 0, iteration 0: the batch ended after `after_loss`: `after_backward` was not called"
        );
        run.reach(Point::AfterBackward).expect("backward");
        assert!(said(run.reach(Point::AfterUpdate)).ends_with("`before_update` was not called"));
        // An update may be left out.
        run.reach(Point::AfterIter).expect("the end");
        run.end_batch();
        assert!(said(run.end_training()).contains("the training ends within an epoch"));
    }

    #[test]
    fn a_skipped_batch_and_points_that_the_loop_lacks_are_not_missing() {
        let mut run = Followed::new(1, 1, &[Point::AfterForward, Point::BeforeUpdate]);
        run.begin_run().expect("begun");
        run.begin_training().expect("training");
        run.begin_epoch(None).expect("an epoch");
        run.begin_batch(1, None, None).expect("a batch");
        run.skip_batch();
        run.reach(Point::AfterIter).expect("skipped");
        run.end_batch();
        run.begin_batch(1, None, None).expect("a batch");
        for point in [
            Point::AfterLoss,
            Point::AfterBackward,
            Point::AfterUpdate,
            Point::AfterIter,
        ] {
            run.reach(point).expect("in order");
        }
        run.end_batch();
        assert_eq!((run.position().iteration, run.position().update), (2, 1));
    }

    #[test]
    fn updates_have_their_batches_and_the_rest_is_one_too() {
        let mut run = in_epoch(5, 2);
        let mut updates = Vec::new();
        for _ in 0..5 {
            run.begin_batch(1, None, None).expect("a batch");
            updates.push(run.position().pass.updates);
            run.skip_batch();
            run.reach(Point::AfterIter).expect("skipped");
            run.end_batch();
        }
        assert_eq!(updates, [false, true, false, true, true]);
        run.end_epoch(None).expect("its end");
        assert_eq!((run.position().epoch, run.position().trained), (1, 0));
    }
}
