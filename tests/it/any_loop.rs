//! Hooks in a candle loop that is not the host's.

use std::path::Path;

use candle_core::{DType, Device, Result, Tensor, Var};
use sconce_hooks::host::{HookHost, HookSetup, HostResult, LoopPlan, Offers};
use sconce_plugin_api::Phase;
use sconce_plugin_api::ext::Request;
use sconce_tests::{Workplace, tiny};
use serde_json::{Value, json};

/// A model of one weight for each of two inputs, and its steps.
struct Loop {
    weight: Var,
    rate: f64,
}

impl Loop {
    fn new() -> Loop {
        let weight = Tensor::new(&[[0.5_f32], [-0.25]], &Device::Cpu);
        let weight = weight.and_then(|weight| Var::from_tensor(&weight));
        Loop {
            weight: weight.expect("a weight"),
            rate: 0.1,
        }
    }

    fn entries(&self) -> Vec<(String, Var)> {
        vec![("weight".to_owned(), self.weight.clone())]
    }

    fn outputs(&self, inputs: &Tensor) -> Result<Tensor> {
        inputs.matmul(self.weight.as_tensor())
    }

    /// Trains until the hooks want it to end, or this epoch is done; with a test if it is the last.
    fn train(&self, hooks: &mut HookHost<'_>, last: u64) -> HostResult {
        while let Some(epoch) = hooks.next_epoch()? {
            for batch in hooks.training(batches(&[8, 8, 8]))? {
                let mut step = batch.step()?;
                let outputs = step.after_forward(self.outputs(step.inputs())?)?;
                let loss = step.after_loss(loss(&outputs, step.targets())?)?;
                if let Some(gradients) = step.after_backward(loss.backward()?)? {
                    let rate = if self.rate > 0.0 {
                        self.rate
                    } else {
                        step.learning_rate()
                    };
                    if let Some(gradient) = gradients.get(self.weight.as_tensor()) {
                        let moved = self.weight.sub(&gradient.affine(rate, 0.0)?)?;
                        self.weight.set(&moved)?;
                    }
                    step.after_update()?;
                }
                step.finish()?;
            }
            self.evaluate(hooks, Phase::Val, &[8, 2])?;
            if epoch == last {
                return Ok(());
            }
        }
        self.evaluate(hooks, Phase::Test, &[6])
    }

    fn evaluate(&self, hooks: &mut HookHost<'_>, phase: Phase, sizes: &[usize]) -> HostResult {
        for batch in hooks.evaluation(phase, batches(sizes))? {
            let mut step = batch.step()?;
            let outputs = step.after_forward(self.outputs(step.inputs())?)?;
            step.after_loss(loss(&outputs, step.targets())?)?;
            step.finish()?;
        }
        Ok(())
    }
}

fn loss(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    outputs.sub(targets)?.sqr()?.mean_all()
}

/// Batches of these sizes, the same in every epoch.
fn batches(sizes: &[usize]) -> Vec<Result<(Tensor, Tensor)>> {
    let batch = |(index, size): (usize, &usize)| {
        let start = index as f32;
        let inputs = Tensor::arange(start, start + 2.0 * *size as f32, &Device::Cpu)?;
        let inputs = inputs.sin()?.reshape((*size, 2))?;
        let targets = Tensor::ones((*size, 1), DType::F32, &Device::Cpu)?;
        Ok((inputs, targets))
    };
    sizes.iter().enumerate().map(batch).collect()
}

fn setup(place: &Workplace, hooks: &Value) -> HookSetup<'static> {
    let document = json!({"hooks": hooks, "plugins": ["plugins"], "output": "out"});
    let file = place.path("hooks.json");
    HookHost::from_text(&document.to_string(), &file)
        .expect("a document")
        .plan(LoopPlan::new(2, 0.1).batches(3).validation_batches(2))
}

/// A call in short, without those at modules.
fn calls(place: &Workplace) -> Vec<String> {
    let short = |call: &Value| {
        let point = call["point"]
            .as_str()
            .filter(|point| !point.starts_with("module"))?;
        let numbers = [
            "epoch",
            "epochs",
            "iteration",
            "update",
            "batch",
            "batches",
            "batch_size",
            "samples",
            "ordinal",
        ];
        let numbers: Vec<String> = numbers.iter().map(|key| call[*key].to_string()).collect();
        let due = &call["update_due"];
        let initial = &call["initial"];
        Some(format!(
            "{point}({}) {} {due} {initial}",
            call["phase"],
            numbers.join("/")
        ))
    };
    place
        .records("record.jsonl")
        .iter()
        .filter_map(short)
        .collect()
}

#[test]
fn hooks_see_the_points_and_counters_of_the_hosts_own_run() {
    let plugins = ["sconce-fixture-recorder"];
    let here = Workplace::new(&plugins);
    let offers = Offers {
        absent: Vec::new(),
        ..Offers::of_a_whole_loop()
    };
    let setup = setup(&here, &json!(["recorder"])).offers(offers);
    let model = Loop::new();
    let mut hooks = setup.parameters(model.entries()).start().expect("hooks");
    model.train(&mut hooks, u64::MAX).expect("a run");
    hooks.finish().expect("the end");
    let there = Workplace::new(&plugins);
    let mut manifest = tiny();
    manifest["hooks"] = json!(["recorder"]);
    manifest["train"]["test"] = json!(true);
    there.run(&manifest);
    let (here, there) = (calls(&here), calls(&there));
    for (index, (one, other)) in here.iter().zip(&there).enumerate() {
        assert_eq!(one, other, "call {index}");
    }
    assert_eq!(here.len(), there.len());
}

#[test]
fn a_step_left_half_done_is_named_and_hooks_learn_that_the_loop_has_failed() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    let offers = Offers {
        absent: Vec::new(),
        ..Offers::of_a_whole_loop()
    };
    let model = Loop::new();
    let setup = setup(&place, &json!(["recorder"])).offers(offers);
    let mut hooks = setup.parameters(model.entries()).start().expect("hooks");
    assert_eq!(hooks.next_epoch().expect("an epoch"), Some(0));
    let mut pass = hooks.training(batches(&[8, 8])).expect("a pass");
    let mut step = pass.next().expect("a batch").step().expect("a step");
    step.after_forward(model.outputs(step.inputs()).expect("outputs"))
        .expect("hooks");
    drop(step);
    let error = pass.next().expect("an error").step().err();
    let said = error.expect("half done").to_string();
    assert!(said.ends_with("`after_loss` was not called"), "{said}");
    drop(pass);
    drop(hooks);
    let calls = calls(&place);
    let last: Vec<&str> = calls.iter().rev().take(2).map(String::as_str).collect();
    assert!(
        last[1].starts_with("on_exception") && last[0].starts_with("after_run"),
        "{last:?}"
    );
}

#[test]
fn what_a_loop_cant_do_is_refused_at_the_start_by_name() {
    let place = Workplace::new(&["sconce-plugin-optimisation"]);
    let model = Loop::new();
    let hooks = json!([
        "precise-batchnorm",
        {"hook": "lr-schedule", "name": "rates", "config": {"schedule": {"kind": "cosine"}}},
        {"hook": "ema", "config": {"decay": 0.9}}
    ]);
    let refused = setup(&place, &hooks).parameters(model.entries()).start();
    let said = refused.err().expect("refused").to_string();
    for reason in [
        "the hook `precise-batchnorm` can't run in this loop: it may ask for `renew_statistics`",
        "the hook `rates` can't run in this loop: it may ask for `set_learning_rate`",
    ] {
        assert!(said.contains(reason), "{said}");
    }
    assert!(!said.contains("the hook `ema`"), "{said}");
    let hooks = json!([{"hook": "grad-clip", "config": {"max_norm": 1.0}, "isolation": "process"}]);
    let refused = setup(&place, &hooks).parameters(model.entries()).start();
    let said = refused.err().expect("refused").to_string();
    assert!(said.contains("a process of its own"), "{said}");
}

#[test]
fn a_loop_goes_on_from_its_hooks_states_as_if_it_had_not_stopped() {
    let plugins = ["sconce-plugin-csv", "sconce-plugin-optimisation"];
    let hooks = json!([
        "csv",
        {"hook": "ema", "config": {"decay": 0.9}},
        {"hook": "grad-clip", "config": {"max_norm": 0.1}}
    ]);
    let started = |place: &Workplace, model: &Loop| {
        let setup = setup(place, &hooks).follows(Request::SetLearningRate);
        setup.parameters(model.entries())
    };
    let whole = Workplace::new(&plugins);
    let model = Loop::new();
    let mut running = started(&whole, &model).start().expect("hooks");
    model.train(&mut running, u64::MAX).expect("a run");
    running.finish().expect("the end");
    let parts = Workplace::new(&plugins);
    let again = Loop::new();
    let mut first = started(&parts, &again).start().expect("hooks");
    again.train(&mut first, 0).expect("an epoch");
    let states = first.states().expect("states");
    first.saved(Path::new("loop.ckpt"), &Ok(())).expect("saved");
    first.failed(&"killed").expect("the end");
    let mut damaged = states.clone();
    damaged[100] ^= 1;
    let refused = started(&parts, &again).resuming(damaged).start();
    assert!(
        refused
            .err()
            .expect("damaged")
            .to_string()
            .contains("damaged")
    );
    let mut second = started(&parts, &again)
        .resuming(states)
        .start()
        .expect("hooks");
    again.train(&mut second, u64::MAX).expect("the rest");
    second.finish().expect("the end");
    let numbers = |weight: &Var| weight.flatten_all().and_then(|all| all.to_vec1::<f32>());
    assert_eq!(
        numbers(&model.weight).expect("numbers"),
        numbers(&again.weight).expect("numbers")
    );
    let read = |place: &Workplace| {
        let path = place.path("out/train.csv");
        std::fs::read_to_string(path).expect("the hook's file")
    };
    assert_eq!(read(&whole), read(&parts));
}

#[cfg(target_os = "linux")]
#[test]
fn a_loop_in_c_has_hooks_by_the_library() {
    use std::process::Command;

    let plugins = ["sconce-plugin-optimisation", "sconce-plugin-csv"];
    let place = Workplace::new(&plugins);
    let root = sconce_tests::workspace();
    let built = sconce_tests::artifacts().directory();
    let libraries = place.path("lib");
    std::fs::create_dir(&libraries).expect("a directory");
    let library = libraries.join("libsconce.so");
    std::fs::copy(built.join("libsconce.so"), &library).expect("a copy");
    // As in the archive: a program in C has none of Python's functions.
    let weakened = Command::new("python3")
        .arg(root.join("host/libsconce/weaken.py"))
        .arg(&library)
        .status()
        .expect("python3");
    assert!(weakened.success());
    let program = place.path("any_loop");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(root.join("tests/c/any_loop.c"))
        .arg("-I")
        .arg(root.join("host/libsconce/include"))
        .arg("-L")
        .arg(&libraries)
        .args(["-lsconce", "-lm", "-Wl,--allow-shlib-undefined"])
        .output()
        .expect("a C compiler");
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    let document = json!({
        "hooks": [{"hook": "grad-clip", "config": {"max_norm": 1.0}}, "csv"],
        "plugins": [place.path("plugins")]
    });
    let run = Command::new(&program)
        .arg(document.to_string())
        .arg(place.path("out"))
        .env("LD_LIBRARY_PATH", &libraries)
        .output()
        .expect("the program");
    let (said, problems) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{said}{problems}");
    for line in [
        "refused: 1",
        "on a device: 1",
        "out of order: 1",
        "saved own",
        "damaged: 1",
    ] {
        assert!(said.contains(line), "no `{line}` in {said}");
    }
    let norms: Vec<f64> = said
        .lines()
        .filter_map(|line| line.strip_prefix("norm ")?.parse().ok())
        .collect();
    assert_eq!(norms.len(), 6, "{said}");
    // The gradient of the first batch is (-2, -1).
    assert!(norms.iter().all(|norm| *norm <= 1.0001), "{norms:?}");
    let rows = std::fs::read_to_string(place.path("out/train.csv")).expect("the hook's file");
    assert_eq!(rows.lines().count(), 3, "{rows}");
}
