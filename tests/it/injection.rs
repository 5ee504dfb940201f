//! A sample of the fault injector's points; `cargo run --release -p sconce-tests --bin inject` tries all of them.

use sconce_tests::injection::hooks::{PLUGINS, keeping, manifest};
use sconce_tests::injection::{ENDS, Failing, Outcome, Trial, permitted};
use sconce_tests::skip;
use serde_json::Value;

/// A run of three epochs with these hooks of [`keeping`].
fn run_with(hooks: &[&str]) -> Value {
    let entries = keeping().into_iter();
    let wanted = entries.filter(|(name, _)| hooks.contains(name));
    let entries: Vec<Value> = wanted.map(|(_, entry)| entry).collect();
    assert_eq!(entries.len(), hooks.len(), "{hooks:?}");
    manifest(&entries, 3)
}

/// Whether calls of a run can be stopped; says so if not, and fails where nothing may be skipped.
fn can_be_stopped() -> bool {
    let permitted = permitted();
    if let Err(error) = &permitted {
        skip(&format!("calls of a run can't be stopped: {error}"));
    }
    permitted.is_ok()
}

#[test]
fn a_run_killed_or_without_power_at_any_call_ends_with_the_same_weights_and_files() {
    if !can_be_stopped() {
        return;
    }
    for (hooks, every) in [
        (["checkpoint", "early-stopping", "csv"], 11),
        (["background", "early-stopping", "jsonl"], 13),
    ] {
        let (mut trial, recording) = Trial::new(&PLUGINS, &run_with(&hooks)).expect("a recording");
        assert!(recording.cuts.len() > 100, "few calls are seen");
        let mut same = 0;
        for end in ENDS {
            for cut in recording.cuts.iter().step_by(every) {
                let outcome = trial.after(cut, end).expect("a directory");
                let at = &cut.point;
                assert!(
                    outcome.is_right(),
                    "{hooks:?}, {end:?} before {at}: {outcome}"
                );
                same += usize::from(outcome == Outcome::Same);
            }
        }
        assert!(same > 0, "no run was resumed");
    }
}

#[test]
fn a_run_with_a_failing_call_says_so_or_ends_with_the_same_weights_and_files() {
    if !can_be_stopped() {
        return;
    }
    let hooks = ["checkpoint", "early-stopping", "csv"];
    let (mut trial, recording) = Trial::new(&PLUGINS, &run_with(&hooks)).expect("a recording");
    let mut failed = 0;
    for cut in recording.cuts.iter().step_by(23) {
        let at = &cut.point;
        for (number, failing) in [
            (libc::EIO, Failing::Once),
            (libc::ENOSPC, Failing::FullDisk),
        ] {
            let outcome = trial.with_error(at, number, failing).expect("a run");
            let Some(outcome) = outcome else { continue };
            failed += 1;
            assert!(
                outcome.is_right_after_error(),
                "error {number} from {at} on: {outcome}"
            );
        }
    }
    assert!(failed > 0, "no call failed");
}
