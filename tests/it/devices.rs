//! The manifest's `device` and `precision` in a build without CUDA: what is wrong, where, and what to do.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

fn set(manifest: &Value, overrides: &[&str]) -> Finished {
    let place = Workplace::new(&[]);
    place.write(manifest);
    let mut arguments = vec!["run", "manifest.json"];
    for text in overrides {
        arguments.extend(["--set", text]);
    }
    let finished = place.sconce(&arguments);
    // Of the command that looks for mistakes the same.
    if let Some(first) = arguments.first_mut() {
        *first = "check";
    }
    let checked = place.sconce(&arguments);
    assert_eq!(checked.code, finished.code, "{}", checked.stderr);
    if finished.code != 0 {
        assert_eq!(checked.stderr, finished.stderr);
        assert!(!place.path("out").exists(), "nothing is made");
    }
    finished
}

#[test]
fn a_gpu_without_cuda_in_the_build_ends_before_the_run() {
    let told = [
        "`cuda`: this build of Sconce has no CUDA",
        "--features cuda",
        "docs/gpu.md",
        "`\"device\": \"cpu\"`",
    ];
    let found = set(&edit(tiny(), "/device", json!("cuda")), &[]).expect(2, &told);
    assert!(
        found.stderr.contains("at device") && found.stderr.contains("manifest.json:"),
        "{}",
        found.stderr
    );
    set(&tiny(), &["device=cuda:1"]).expect(2, &["`cuda:1`: this build of Sconce has no CUDA"]);
}

#[test]
fn without_a_gpu_auto_is_the_cpu() {
    let finished = set(&tiny(), &["device=auto"]).expect(0, &[]);
    assert!(!finished.stderr.contains("GPU"), "{}", finished.stderr);
}

#[test]
fn names_of_devices_and_precisions_are_checked() {
    set(&tiny(), &["device=gpu"]).expect(2, &["gpu", "at device"]);
    set(&tiny(), &["device=cuda:x"]).expect(2, &["cuda:x", "at device"]);
    set(&tiny(), &["precision=f16"]).expect(2, &["f16", "at precision"]);
    set(&tiny(), &["precision=tf32"]).expect(
        2,
        &[
            "`tf32` is a precision of NVIDIA GPUs",
            "at precision",
            "leave `precision` out",
        ],
    );
}

#[test]
fn a_run_says_its_precision_and_a_resume_in_another_one_is_reported() {
    let place = Workplace::new(&["sconce-plugin-checkpoints"]);
    let hooks = json!([{"hook": "checkpoint", "config": {"epochs": 1}}]);
    place.write(&edit(tiny(), "/hooks", hooks));
    let run = ["run", "manifest.json"];
    let once = place.sconce(&[&run[..], &["--set", "train.epochs=1"]].concat());
    assert!(!once.expect(0, &[]).stderr.contains("bf16"));
    let resume = [
        &run[..],
        &["--set", "precision=bf16", "--resume", "epoch-1"],
    ]
    .concat();
    place.sconce(&resume).expect(
        2,
        &[
            "can't resume",
            "`precision` was not there, now \"bf16\"",
            "`--allow-changes`",
        ],
    );
    let allowed = place.sconce(&[&resume[..], &["--allow-changes"]].concat());
    allowed.expect(0, &["not bit for bit", "on the CPU, in bf16"]);
}

/// A processor without AVX2 rounds nothing.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_resume_where_products_have_another_arithmetic_is_reported() {
    if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("fma") {
        return;
    }
    let place = Workplace::new(&["sconce-plugin-checkpoints"]);
    let hooks = json!([{"hook": "checkpoint", "config": {"epochs": 1}}]);
    let manifest = edit(tiny(), "/hooks", hooks);
    place.write(&edit(manifest, "/precision", json!("bf16")));
    let run = ["run", "manifest.json"];
    let once = place.sconce(&[&run[..], &["--set", "train.epochs=1"]].concat());
    once.expect(0, &[]);
    let state: Value =
        serde_json::from_str(&place.read("out/checkpoints/epoch-1/state.json")).expect("JSON");
    assert_eq!(state["facts"]["products"], "pairs");
    let resume = [&run[..], &["--resume", "epoch-1"]].concat();
    let baseline = [("SCONCE_INSTRUCTIONS", "baseline")];
    place.sconce_in(&resume, &baseline).expect(
        2,
        &[
            "can't resume",
            "products in `bf16` were computed as `pairs`, now in another way",
            "no AVX2",
            "`--allow-changes`",
        ],
    );
    // By AVX2 alone the bits are the same.
    place
        .sconce_in(&resume, &[("SCONCE_INSTRUCTIONS", "avx2")])
        .expect(0, &["in bf16"]);
}

#[test]
fn check_needs_no_gpu_and_says_which_hooks_will_copy() {
    let place = Workplace::new(&["sconce-plugin-optimisation", "sconce-plugin-csv"]);
    let hooks = json!([
        {"hook": "grad-clip", "config": {"max_norm": 0.5}},
        {"hook": "grad-noise", "config": {"eta": 0.01}, "every": {"updates": 2}},
        {"hook": "ema", "phases": ["val"], "config": {"decay": 0.9}},
    ]);
    let manifest = edit(tiny(), "/hooks", hooks);
    place.write(&edit(manifest, "/device", json!("cuda")));
    let found = place
        .sconce(&["check", "manifest.json"])
        .expect(2, &["error: `cuda`: this build of Sconce has no CUDA"]);
    for line in [
        "cuda: not for this build; in f32",
        "parameters ",
        "grad-clip: what it reads at ",
        "on the device, without copies",
        "once in 2 updates",
        "ema: none in an iteration",
        "`sconce run --dry-run` measures them",
    ] {
        assert!(found.stdout.contains(line), "{line}\n{}", found.stdout);
    }
    let on_cpu = place.sconce(&["check", "manifest.json", "--set", "device=cpu"]);
    let found = on_cpu.expect(0, &[]);
    assert!(!found.stdout.contains("copies"), "{}", found.stdout);
}

#[test]
fn a_dry_run_measures_copies() {
    let place = Workplace::new(&["sconce-plugin-optimisation"]);
    let hooks = json!([{"hook": "weight-constraint", "config": {"kind": "max-norm", "max": 1.0}}]);
    place.write(&edit(tiny(), "/hooks", hooks));
    let output = place
        .command(&["run", "manifest.json", "--dry-run"])
        .env("SCONCE_HOOK_COPIES", "always")
        .output()
        .expect("the binary can be started");
    let found = Finished::from(output).expect(0, &[]);
    assert!(
        found
            .stdout
            .contains("copies for hooks, an iteration: weight-constraint "),
        "{}",
        found.stdout
    );
    let in_place = place.sconce(&["run", "manifest.json", "--dry-run"]);
    assert!(!in_place.expect(0, &[]).stdout.contains("copies for hooks"));
}

/// `tests/c/on_device.c` halves a gradient where it is, and the fixture `touch` in the memory that it is lent.
#[test]
fn a_hook_that_works_on_the_device_computes_what_one_with_host_memory_does() {
    let weights = |hook: Value, copies: Option<&str>| {
        let place = Workplace::new(&["sconce-fixture-tensors"]);
        place.add_c_plugin("tests/c/on_device.c", &[])?;
        place.write(&edit(tiny(), "/hooks", json!([hook])));
        let mut command = place.command(&["run", "manifest.json"]);
        command.envs(copies.map(|value| ("SCONCE_HOOK_COPIES", value)));
        let output = command.output().expect("the binary can be started");
        let finished = Finished::from(output).expect(0, &[]);
        let weights = std::fs::read(place.path("out/weights.safetensors")).expect("weights");
        Some((weights, finished.stderr))
    };
    let Some((on_device, log)) = weights(json!("on-device"), None) else {
        return;
    };
    assert!(log.contains("type 1, number 0, ``, no stream"), "{log}");
    let config = json!({"at": "after_backward", "what": "gradient", "factor": 0.5});
    let touch = json!({"hook": "touch", "config": config});
    for (hook, copies) in [
        (touch.clone(), None),
        (touch, Some("always")),
        (json!("on-device"), Some("always")),
    ] {
        let found = weights(hook.clone(), copies).map(|(weights, _)| weights);
        assert!(found.as_ref() == Some(&on_device), "{hook} {copies:?}");
    }
}

#[test]
fn addresses_of_a_device_do_not_cross_to_another_process() {
    let place = Workplace::new(&[]);
    if place.add_c_plugin("tests/c/on_device.c", &[]).is_none() {
        return;
    }
    let hook = json!({"hook": "on-device", "isolation": "process"});
    place.run(&edit(tiny(), "/hooks", json!([hook]))).expect(
        3,
        &[
            "`on-device` requires `sconce.device/1`",
            "don't cross to a process of its own",
            "take `\"isolation\"` out of its entry",
        ],
    );
    assert!(!place.path("out").exists(), "nothing is made");
}
