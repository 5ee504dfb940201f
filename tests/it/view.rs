//! What the task view says of the task.

use std::sync::Mutex;

use sconce::optim::{AdamW, Optimizer, OptimizerConfig};
use sconce::run::{self, TrainingPlan};
use sconce::task::Task;
use sconce_plugin_api::{TaskFacts, prelude::*};
use sconce_tests::in_process::{linked, mlp_task, train_with};
use sconce_tests::{Workplace, edit, tiny};
use serde_json::json;

#[derive(Clone, Debug, Default)]
struct Seen {
    facts: Option<TaskFacts>,
    variables: Vec<String>,
    samples: Vec<u32>,
    loss: Vec<(f64, f32)>,
    state: Vec<(String, Vec<i64>)>,
    moment: Vec<f32>,
    before: usize,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

struct Viewer {
    seen: Seen,
}

#[hook(name = "viewer", about = "Looks at everything.")]
impl Hook for Viewer {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Viewer {
            seen: Seen::default(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.seen.facts = Some(task.facts()?);
        self.seen.before = task.tensors(Collection::Optimizer).count();
        assert!(At::any(task).sample_indices().is_err(), "there is no batch");
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        self.seen.variables = task.variables().map(|t| t.name().to_owned()).collect();
        let samples = task.sample_indices()?;
        assert_eq!(samples.shape(), &task.targets()?.shape()[..1]);
        self.seen.samples.extend(samples.as_slice::<u32>()?);
        let scalar = task.variable("loss")?.as_slice::<f32>()?[0];
        self.seen.loss.push((task.loss().expect("a loss"), scalar));
        Ok(())
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        let state = task.tensors(Collection::Optimizer);
        self.seen.state = state
            .map(|t| (t.name().to_owned(), t.shape().to_vec()))
            .collect();
        self.seen.moment = task
            .tensors(Collection::Optimizer)
            .named("fc2.bias.exp_avg")?
            .to_vec()?;
        Ok(())
    }

    fn after_run(&mut self, _task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        *SEEN.lock().expect("no panic") = Some(self.seen.clone());
        Ok(())
    }
}

#[test]
fn a_hook_sees_names_shapes_variables_and_the_optimizers_moments() {
    let plan = TrainingPlan {
        seed: 4,
        batch_size: 20,
        test: false,
        ..TrainingPlan::default()
    };
    let mut task = mlp_task(&[8], 40, 0);
    let mut optimizer = AdamW::new(0.01);
    let report = train_with(&mut task, &mut optimizer, &plan, |shared| {
        vec![linked::<Viewer>(&json!({}), shared)]
    });
    assert!(
        matches!(report.outcome, run::RunOutcome::Completed),
        "{:?}",
        report.outcome
    );
    let seen = SEEN
        .lock()
        .expect("no panic")
        .clone()
        .expect("the run is over");
    let facts = seen.facts.expect("facts");
    assert_eq!((facts.rank, facts.world_size, facts.seed), (0, 1, 4));
    assert_eq!(facts.classes.len(), 10);
    assert_eq!(facts.classes[3], "3");
    assert_eq!(facts.sample_shape, [1, 28, 28]);
    assert_eq!(facts.metrics, ["accuracy"]);
    assert_eq!(facts.parameter_count, 784 * 8 + 8 + 8 * 10 + 10);
    let modules: Vec<&str> = facts
        .modules
        .iter()
        .map(|module| module.name.as_str())
        .collect();
    assert_eq!(modules, ["fc1", "act1", "fc2"]);
    assert_eq!(facts.modules[1].kind, "relu");
    assert_eq!(seen.variables, ["inputs", "targets", "outputs", "loss"]);
    let mut samples = seen.samples;
    assert!(!samples.is_sorted(), "the training's order");
    samples.sort_unstable();
    assert_eq!(samples, (0..40).collect::<Vec<u32>>());
    assert!(!seen.loss.is_empty());
    for (loss, scalar) in seen.loss {
        assert_eq!(loss.to_bits(), f64::from(scalar).to_bits());
    }
    assert_eq!(seen.before, 0, "no moments before the first step");
    assert_eq!(seen.state.len(), 8);
    assert_eq!(
        seen.state[0],
        ("fc1.weight.exp_avg".to_owned(), vec![8, 784])
    );
    // The very numbers that the optimizer saves.
    let state = optimizer.state(task.parameters()).expect("a state");
    let (_, saved) = state
        .iter()
        .find(|(name, _)| name == "fc2.bias.exp_avg")
        .expect("it");
    assert_eq!(saved.to_vec1::<f32>().expect("numbers"), seen.moment);
}

#[test]
fn parameter_groups_have_rates_of_their_own() {
    let optimizer = json!({
        "kind": "sgd",
        "learning_rate": 0.1,
        "groups": [{"name": "still", "parameters": ["fc1.*"], "learning_rate_scale": 0.0}]
    });
    let config: OptimizerConfig = serde_json::from_value(optimizer.clone()).expect("a config");
    let mut task = mlp_task(&[8], 16, 0);
    let mut built = config.build(task.parameters()).expect("an optimizer");
    let before: Vec<f32> = first_layer(&task);
    train_with(&mut task, built.as_mut(), &TrainingPlan::default(), |_| {
        Vec::new()
    });
    assert_eq!(first_layer(&task), before, "a rate of zero");

    let run = |ask: serde_json::Value| {
        let place = Workplace::new(&["sconce-fixture-faults", "sconce-fixture-recorder"]);
        let hooks = json!([{"hook": "asker", "config": ask}, "recorder"]);
        let manifest = edit(tiny(), "/optimizer", optimizer.clone());
        let finished = place.run(&edit(manifest, "/hooks", hooks));
        (place, finished)
    };
    let rate = |group: &str| json!({"at": "before_run", "what": "set_learning_rate", "number": 0.5, "text": group});
    let (place, finished) = run(rate("still"));
    finished.expect(0, &[]);
    let last = place.records("record.jsonl").pop().expect("calls");
    assert_eq!(last["learning_rate"], 0.1, "the default group's");
    assert_eq!(
        last["learning_rates"],
        json!([["default", 0.1], ["still", 0.5]])
    );
    run(rate("stil")).1.expect(
        4,
        &["no parameter group is called `stil`; did you mean `still`?"],
    );
}

fn first_layer(task: &dyn Task) -> Vec<f32> {
    let weight = task.parameters().get("fc1.weight").expect("it").tensor();
    weight
        .flatten_all()
        .and_then(|t| t.to_vec1())
        .expect("numbers")
}
