//! The test kit: what it plays is what the host does.

use std::sync::Mutex;

use sconce::optim::{AdamW, Optimizer};
use sconce::run::{RunOutcome, TrainingPlan};
use sconce_plugin_api::TaskFacts;
use sconce_plugin_api::prelude::*;
use sconce_plugin_testing::{Request, RunEnd, ScriptedRun};
use sconce_tests::in_process::{linked, mlp_task, train_with};
use serde_json::{Value, json};

/// What a [`Recorder`] does at which training iteration (finished ones, at `after_iter`; begun ones, at
/// `before_iter`).
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Orders {
    /// Validates behind this many.
    validate: Option<u64>,
    /// Leaves the batch out behind which there are this many.
    skip: Option<u64>,
    /// Asks for a stop behind this many.
    stop: Option<u64>,
    /// Asks for a stop at the epoch's end behind this many.
    stop_after_epoch: Option<u64>,
    /// Fails behind this many.
    fail: Option<u64>,
    /// Adds up so many gradients from the second epoch on.
    accumulate: Option<u64>,
}

/// One run at a time records.
static ALONE: Mutex<()> = Mutex::new(());
static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static FACTS: Mutex<Option<TaskFacts>> = Mutex::new(None);

/// Writes down every call.
struct Recorder(Orders);

fn record(task: &mut TaskView<'_>, detail: &str) {
    let task = At::any(task);
    let point = task.point().map_or("?", Point::name);
    let mut line = format!(
        "{point} {} {} epoch {}/{} iteration {} update {} batch {}/{} of {} samples {} ordinal {}",
        task.phase(),
        task.stream(),
        task.epoch(),
        task.epochs(),
        task.iteration(),
        task.update(),
        task.batch(),
        task.batches(),
        task.batch_size(),
        task.samples(),
        task.ordinal(),
    );
    for (is, word) in [
        (task.is_update_due(), " updates"),
        (task.is_initial_validation(), " initial"),
        (task.loss().is_some(), " loss"),
        (task.gradients().next().is_some(), " gradients"),
    ] {
        if is {
            line.push_str(word);
        }
    }
    let batch: Vec<&str> = task.variables().map(|tensor| tensor.name()).collect();
    let metrics: Vec<&str> = task
        .metrics_of(task.phase())
        .map(|(name, _)| name)
        .collect();
    let line = format!("{line} {batch:?} {metrics:?} {detail}");
    CALLS.lock().expect("no panic").push(line);
}

#[hook(
    name = "recorder",
    about = "Writes down every call.",
    reads = [gradients, batch, loss]
)]
impl Hook for Recorder {
    type Config = Orders;

    fn new(orders: Orders, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Recorder(orders))
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        *FACTS.lock().expect("no panic") = Some(task.facts()?);
        record(task, "");
        Ok(())
    }

    fn before_loop(&mut self, task: &mut BeforeLoop<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        record(task, "");
        if let (Some(batches), 1, Phase::Train) = (self.0.accumulate, task.epoch(), task.phase()) {
            task.set_accumulation(batches)?;
        }
        Ok(())
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        record(task, "");
        if task.phase() == Phase::Train && self.0.skip == Some(task.iteration()) {
            task.skip_batch()?;
        }
        Ok(())
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        module.output()?;
        record(task, module.name());
        Ok(())
    }

    fn module_backward(
        &mut self,
        task: &mut ModuleBackward<'_>,
        module: &Module<'_>,
    ) -> Result<()> {
        module.output_gradient()?;
        record(task, module.name());
        Ok(())
    }

    fn after_backward(&mut self, task: &mut AfterBackward<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        record(task, "");
        let iteration = Some(task.iteration());
        let Some(mut task) = task.in_training() else {
            return Ok(());
        };
        if self.0.validate == iteration {
            task.validate_now()?;
        }
        if self.0.stop_after_epoch == iteration {
            task.stop_after_epoch("at the end")?;
        }
        if self.0.stop == iteration {
            task.stop("now")?;
        }
        if self.0.fail == iteration {
            bail!("told to fail");
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn epoch_profile(&mut self, task: &mut AtEpochProfile<'_>, _: &EpochProfile<'_>) -> Result<()> {
        record(task, "");
        Ok(())
    }

    fn on_exception(&mut self, task: &mut OnException<'_>, failure: &Failure<'_>) -> Result<()> {
        let is_its = matches!(failure.origin, Origin::Hook("recorder"));
        record(task, if is_its { "its own" } else { "another's" });
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, outcome: &Outcome<'_>) -> Result<()> {
        let detail = match outcome {
            Outcome::Completed => "completed".to_owned(),
            Outcome::Stopped { reason } => format!("stopped: {reason}"),
            // The error's words are the host's: hook, file, place.
            Outcome::Failed { .. } => "failed".to_owned(),
            other => format!("{other:?}"),
        };
        record(task, &detail);
        Ok(())
    }
}

fn calls() -> Vec<String> {
    std::mem::take(&mut *CALLS.lock().expect("no panic"))
}

/// The calls of a real run: 3 epochs of 4 batches of 5 samples, validations of 2.
fn in_the_host(orders: &Value) -> (Vec<String>, RunOutcome) {
    let mut task = mlp_task(&[4], 20, 10);
    let mut optimizer = AdamW::new(0.01);
    let plan = TrainingPlan {
        epochs: 3,
        batch_size: 5,
        eval_batch_size: 5,
        accumulate: 2,
        initial_validation: true,
        ..TrainingPlan::default()
    };
    let optimizer: &mut dyn Optimizer = &mut optimizer;
    let report = train_with(&mut task, optimizer, &plan, |shared| {
        vec![linked::<Recorder>(orders, shared)]
    });
    (calls(), report.outcome)
}

/// The same by the kit.
fn in_the_kit(orders: &Value, facts: &TaskFacts) -> Vec<String> {
    let mut run = ScriptedRun::new()
        .empty_model()
        .parameter("w", &[1], &[1.0])
        .epochs(3)
        .iterations(4)
        .validation(2)
        .batch_size(5)
        .accumulate(2)
        .initial_validation();
    for module in &facts.modules {
        run = run.module(&module.name, &module.kind, 4);
    }
    for phase in [Phase::Train, Phase::Val] {
        for metric in &facts.metrics {
            run = run.metric(phase, metric, |_| 0.5);
        }
    }
    let result = run.drive::<Recorder>(orders.clone());
    assert_eq!(result.is_err(), orders.get("fail").is_some());
    calls()
}

#[test]
fn a_scripted_run_calls_a_hook_as_the_host_does() {
    let _alone = ALONE.lock().expect("no panic");
    let tries = [
        json!({}),
        json!({"validate": 2}),
        json!({"skip": 5}),
        json!({"stop": 6}),
        json!({"stop_after_epoch": 6, "validate": 7}),
        json!({"stop_after_epoch": 5, "stop": 6}),
        json!({"accumulate": 3}),
        json!({"fail": 6}),
    ];
    for orders in tries {
        let (expected, outcome) = in_the_host(&orders);
        let facts = FACTS.lock().expect("no panic").clone().expect("facts");
        assert!(expected.len() > 50, "{orders}: {outcome:?}");
        let found = in_the_kit(&orders, &facts);
        for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert_eq!(found, expected, "call {index} with {orders}");
        }
        assert_eq!(found.len(), expected.len(), "{orders}");
    }
}

/// Counts, keeps its count and an average of a parameter, and saves and stops by it.
struct Counter {
    count: u64,
    forgets: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct CounterConfig {
    /// Leaves its count out of its state.
    forgets: bool,
    /// Goes back to the first checkpoint behind so many iterations, once.
    #[schemars(range(min = 1))]
    roll_back: Option<u64>,
}

#[hook(name = "counter", about = "Counts.", publishes = ["count"])]
impl Hook for Counter {
    type Config = CounterConfig;

    fn new(config: CounterConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Counter {
            count: 0,
            forgets: config.forgets,
        })
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        let now = task.parameter("fc1.bias")?.to_vec::<f32>()?;
        if self.count == 0 {
            task.publish_tensor("mean/fc1.bias", &[4], &now, Keep::Run)?;
        }
        let mut mean = task.published_tensor_mut("mean/fc1.bias")?;
        for (mean, now) in mean.as_mut_slice::<f32>()?.iter_mut().zip(now) {
            *mean += 0.5 * (now - *mean);
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.count += 1;
            task.publish_metric("count", self.count as f64)?;
            task.set_learning_rate(Groups::All, 0.1 / self.count as f64)?;
            if self.count == 2 {
                task.checkpoint("two").save()?;
            }
        }
        Ok(())
    }

    fn before_loop(&mut self, task: &mut BeforeLoop<'_>) -> Result<()> {
        if task.phase() == Phase::Val {
            task.swap_parameters("mean")?;
        }
        Ok(())
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        if task.phase() == Phase::Val {
            task.swap_back()?;
        }
        Ok(())
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        state::to_bytes(&if self.forgets { 0 } else { self.count })
    }

    fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
        self.count = state::from_bytes(bytes)?;
        Ok(())
    }
}

/// Remembers nothing, and takes the counters of `before_epoch` for those with which the epoch began.
struct Beginnings(u64);

#[hook(name = "beginnings", about = "Publishes where the epoch began.")]
impl Hook for Beginnings {
    type Config = NoConfig;

    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Beginnings(0))
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.0 = task.iteration();
        }
        // Done when the epoch began: a second time it would be less than half.
        let rate = task.learning_rate();
        task.set_learning_rate(Groups::All, rate / 2.0)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        task.publish_metric("began", self.0 as f64)
    }
}

#[test]
fn a_reopened_epoch_is_shown_as_it_began() {
    let run = ScriptedRun::new();
    run.check_resume::<Beginnings>(json!({}))
        .expect("a host shows the same");
}

#[test]
fn a_buffer_is_frozen_or_not() {
    let run = ScriptedRun::new().buffer("norm.running_mean", &[1], &[0.0]);
    let failed = run.drive::<Doer>(json!({"what": "half a buffer"}));
    let failed = failed.expect_err("as in a run");
    let words = "`norm.running_mean` is a buffer, which no learning rate moves: its share is 0 or 1, found 0.5";
    assert!(failed.message.contains(words), "{failed}");
}

#[test]
fn what_a_hook_forgets_is_found_by_resuming() {
    let run = ScriptedRun::new();
    run.check_resume::<Counter>(json!({}))
        .expect("it keeps all");
    let failed = run.check_resume::<Counter>(json!({"forgets": true}));
    let message = failed.expect_err("it forgets").message;
    assert!(
        message.contains("behind iteration 1 and resumed"),
        "{message}"
    );
    let seen = run
        .interrupt_after(5)
        .drive::<Counter>(Value::Null)
        .expect("driven");
    assert_eq!(seen.metric(Phase::Train, "count").len(), 12);
    assert_eq!(seen.state_as::<u64>().expect("a number"), 12);
    assert_eq!(
        (seen.saved(), seen.called(Point::AfterUpdate)),
        (vec!["two"], 12)
    );
    assert_eq!(seen.checkpoints(), ["two"]);
}

/// Does one thing that a test asks for, at `after_iter`, and tells what came of it.
struct Doer(String);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Deed {
    /// What.
    #[schemars(length(min = 1))]
    what: String,
}

#[hook(name = "doer", about = "Does one thing.")]
impl Hook for Doer {
    type Config = Deed;

    fn new(config: Deed, setup: &Setup<'_>) -> Result<Self> {
        std::fs::write(setup.run_directory().join("made"), setup.name())?;
        if config.what == "fail-at-once" {
            bail!("not with me");
        }
        Ok(Doer(config.what))
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let mut task = At::any(task);
        match self.0.as_str() {
            "skip-update" => task.skip_update(),
            "gradient" => task.gradient_mut("fc1.weight").map(drop),
            "inputs" => task.inputs_mut().map(drop),
            "parameter" => task.parameter_mut("fc9.weight").map(drop),
            "tag" => task.checkpoint("a/b").save(),
            "latest" => task.checkpoint("latest").save(),
            "roll-back" => task.checkpoint("nowhere").roll_back(),
            "swap" => task.swap_parameters("nothing"),
            "rate" => task.set_learning_rate(Groups::All, f64::NAN),
            "group" => task.set_learning_rate("haed", 0.1),
            "metric" => task.publish_metric("loss", 0.0),
            "entry" => task.add_to_checkpoint("x", &1),
            "renew" => task.renew_statistics(0),
            "half a buffer" => task.unfreeze("norm.running_mean", 0.5),
            "panic" => panic!("no more"),
            _ => Ok(()),
        }
    }
}

#[test]
fn what_the_host_refuses_is_refused_in_its_words() {
    let cases = [
        (
            "skip-update",
            "`skip_update` is not legal at `after_iter` (train); it is at after_loss",
        ),
        (
            "gradient",
            "the gradients can't be changed at `after_iter`; they can at after_backward",
        ),
        (
            "inputs",
            "the inputs can't be changed at `after_iter`; they can at before_iter",
        ),
        ("parameter", "no `fc9.weight`; there are: fc1.weight"),
        ("tag", "a checkpoint's tag has 1 to 128 letters"),
        ("latest", "`latest` is not a tag"),
        ("roll-back", "can't roll back to `nowhere`"),
        ("swap", "no hook has published a set `nothing`"),
        (
            "rate",
            "a learning rate is finite and not negative, found NaN",
        ),
        ("group", "no parameter group `haed`; there are: default"),
        ("metric", "the metric `loss` is the task's"),
        (
            "entry",
            "nothing can be added to a checkpoint at `after_iter`",
        ),
        ("renew", "the model has no buffers"),
        ("panic", "no more"),
    ];
    for (what, message) in cases {
        let run = ScriptedRun::new();
        let failed = run.drive::<Doer>(json!({"what": what})).expect_err(what);
        assert!(failed.message.contains(message), "{what}: {failed}");
        let at = failed.at.expect("in a call");
        assert_eq!((at.point, at.iteration), (Point::AfterIter, 1), "{what}");
        assert_eq!(failed.is_panic, what == "panic");
        assert!(matches!(failed.seen.end(), RunEnd::Failed { .. }));
    }
    for (config, message) in [
        (json!({"what": "fail-at-once"}), "not with me"),
        (json!({"what": ""}), "what must have at least 1 characters"),
        (json!({"waht": "x"}), "unknown field `waht`"),
        (Value::Null, "missing field `what`"),
    ] {
        let failed = ScriptedRun::new().drive::<Doer>(config).expect_err(message);
        assert!(failed.message.contains(message), "{failed}");
        assert_eq!(failed.at, None);
    }
}

#[test]
fn files_stay_as_long_as_what_was_seen() {
    let run = ScriptedRun::new().entry_name("mine").epochs(1);
    let seen = run
        .drive::<Doer>(json!({"what": "nothing"}))
        .expect("driven");
    assert_eq!(seen.file("made").expect("it is there"), "mine");
    let directory = seen.run_directory().to_owned();
    let copy = seen.clone();
    drop(seen);
    assert!(directory.is_dir());
    drop(copy);
    assert!(!directory.exists());
}

/// Saves, looks at its checkpoint, and goes back to it once.
struct Traveller(bool);

#[hook(name = "traveller", about = "Goes back once.")]
impl Hook for Traveller {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Traveller(false))
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let Some(mut task) = task.in_training() else {
            return Ok(());
        };
        match task.iteration() {
            2 => task.checkpoint("two").save(),
            7 if !std::mem::replace(&mut self.0, true) => task.checkpoint("two").roll_back(),
            _ => Ok(()),
        }
    }

    fn before_save_checkpoint(
        &mut self,
        task: &mut BeforeSaveCheckpoint<'_>,
        _: &Checkpoint<'_>,
    ) -> Result<()> {
        task.add_to_checkpoint("note", "from two")
    }

    fn after_save_checkpoint(
        &mut self,
        task: &mut AfterSaveCheckpoint<'_>,
        it: &Checkpoint<'_>,
    ) -> Result<()> {
        if let Some(error) = it.error {
            task.warn(error);
        }
        Ok(())
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        it: &Checkpoint<'_>,
    ) -> Result<()> {
        let note: Option<String> = task.in_checkpoint("note")?;
        task.info(format_args!(
            "{}: {} at {}",
            it.tag,
            note.unwrap_or_default(),
            task.iteration()
        ));
        Ok(())
    }
}

#[test]
fn a_roll_back_leads_to_where_the_checkpoint_was() {
    let run = ScriptedRun::new().epochs(2).iterations(4);
    let plain = run
        .drive::<Doer>(json!({"what": "nothing"}))
        .expect("driven");
    let seen = run.drive::<Traveller>(Value::Null).expect("driven");
    assert_eq!(seen.messages()[0].text, "two: from two at 2");
    let iterations: Vec<u64> = (seen.calls().iter())
        .filter(|place| place.point == Point::AfterIter && place.phase == Phase::Train)
        .map(|place| place.iteration)
        .collect();
    assert_eq!(iterations, [1, 2, 3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 8]);
    assert_eq!(seen.parameter("fc1.weight"), plain.parameter("fc1.weight"));
    // Where nothing can be saved, nobody can go back to it.
    let full = ScriptedRun::new().saves_fail("the disk is full");
    let failed = full
        .drive::<Traveller>(Value::Null)
        .expect_err("no checkpoint");
    assert_eq!(failed.seen.warnings(), ["the disk is full"]);
    assert_eq!(failed.seen.asked_for(Request::RollBack).len(), 1);
}

#[test]
fn a_task_that_fails_ends_the_run_as_in_the_host() {
    let _alone = ALONE.lock().expect("no panic");
    let run = ScriptedRun::new().fails_in(5, "no memory");
    let seen = run
        .drive::<Recorder>(json!({}))
        .expect("not the hook's fault");
    let end = RunEnd::Failed {
        error: "no memory".to_owned(),
    };
    assert_eq!(seen.end(), &end);
    let calls = calls();
    let [.., before, last] = &calls[..] else {
        panic!("too few calls");
    };
    assert!(
        before.starts_with("on_exception") && before.ends_with("another's"),
        "{before}"
    );
    assert!(
        last.starts_with("after_run") && last.ends_with("failed"),
        "{last}"
    );
}
