//! `tensorboard`, `webhook`, `mlflow`.

mod event_files;
mod mlflow;
mod server;
mod tensorboard;
mod webhook;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &["sconce-plugin-tracking", "sconce-fixture-faults"];

/// Runs `tiny`, two epochs of three batches, with one hook.
fn run(hook: &str, config: &Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let hooks = json!([{"hook": hook, "config": config}]);
    let finished = place.run(&edit(tiny(), "/hooks", hooks));
    (place, finished)
}

/// What the host says against a hook's config.
fn refused(hook: &str, config: Value, words: &[&str]) {
    let (_, finished) = run(hook, &config);
    // By the schema, or by the hook itself.
    let code = if finished.stderr.contains("failed when it was created") {
        3
    } else {
        2
    };
    finished.expect(code, words);
}

/// Saves a checkpoint as `here` after an iteration of the training.
fn save(iteration: u64) -> Value {
    json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter", "phase": "train",
        "what": "save_checkpoint", "text": "here", "after_iteration": iteration, "once": true}})
}
