//! A measurement of what a call costs: `cargo test --release -p sconce-plugin-python -- --ignored --nocapture times`.

use std::time::Instant;

use sconce_plugin_testing::ScriptedRun;
use serde_json::json;

use super::*;

/// The hook, with the time of each of its calls.
struct Timed {
    hook: Python,
    nanoseconds: Vec<u128>,
}

#[hook(name = "timed", about = "Measures a hook in Python.")]
impl Hook for Timed {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let hook = Python::new(config, setup)?;
        Ok(Timed {
            hook,
            nanoseconds: Vec::new(),
        })
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        // Several in a row: the test kit's own work between calls empties the caches, which a step's does less often.
        for _ in 0..REPEATED {
            let begun = Instant::now();
            self.hook.after_iter(task)?;
            self.nanoseconds.push(begun.elapsed().as_nanos());
        }
        if self.nanoseconds.len() == CALLS {
            self.report(task);
        }
        Ok(())
    }
}

const CALLS: usize = 40_000;
const REPEATED: usize = 40;

impl Timed {
    fn report(&mut self, task: &mut TaskView<'_>) {
        // The clock's own time is in all of them.
        let mut clock: Vec<u128> = (0..1001)
            .map(|_| Instant::now().elapsed().as_nanos())
            .collect();
        clock.sort_unstable();
        self.nanoseconds.sort_unstable();
        let at = |part: usize| self.nanoseconds[self.nanoseconds.len() * part / 1000];
        task.info(format_args!(
            "p50 {} ns, p90 {} ns, p99 {} ns, clock {} ns",
            at(500),
            at(900),
            at(990),
            clock[500]
        ));
    }
}

#[test]
#[ignore = "a measurement, of a release build on a quiet machine"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn times_of_a_call() {
    let elements = vec![0.5; 10_000];
    for (what, body) in [
        ("an empty method", "pass"),
        ("reading loss and iteration", "task.loss, task.iteration"),
        ("a metric", "task.metric('loss')"),
        ("publishing a metric", "task.publish_metric('x', 1.0)"),
        (
            "np.asarray of a parameter",
            "np.asarray(task.parameter('fc1.weight'))",
        ),
        (
            "the largest of 10,000 elements",
            "np.asarray(task.parameter('fc1.weight')).max()",
        ),
        (
            "a copy of 10,000 elements",
            "task.parameter('fc1.weight').copy()",
        ),
    ] {
        let text = format!(
            "import numpy as np\nimport sconce\nclass A(sconce.Hook):\n    def after_iter(self, task):\n        {body}\n"
        );
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let file = place.path().join("case.py");
        std::fs::write(&file, text).expect("a file can be written");
        let run = ScriptedRun::new()
            .epochs(1)
            .iterations((CALLS / REPEATED) as u64)
            .validation(0)
            .test(0);
        let run = run
            .empty_model()
            .parameter("fc1.weight", &[100, 100], &elements);
        let seen = run.drive::<Timed>(json!({"file": file})).expect("it runs");
        println!("{what}: {}", seen.messages()[0].text);
    }
}
