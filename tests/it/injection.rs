//! A sample of the fault injector's points; `cargo run --release -p sconce-tests --bin inject` tries all of them.

use sconce_tests::injection::hooks::{PLUGINS, keeping, manifest};
use sconce_tests::injection::{ENDS, Failing, Outcome, Point, Trial, permitted};
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
        (["checkpoint", "early-stopping", "csv"], 23),
        (["background", "early-stopping", "jsonl"], 29),
        // Its table begins once the directory of checkpoints is on disk: the name of a new file has to be, too.
        (["checkpoint", "lr-range-test", "csv"], 61),
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

/// At any call once the directory has been opened and locked. Only what helps to explain a crash goes by path, and hooks' own
/// files: here is no hook that has any.
#[test]
fn nothing_is_written_through_a_link_in_the_place_of_the_runs_directory() {
    if !can_be_stopped() {
        return;
    }
    let hooks = ["checkpoint", "early-stopping"];
    let (mut trial, recording) = Trial::new(&PLUGINS, &run_with(&hooks)).expect("a recording");
    let points = recording.cuts.iter().map(|cut| &cut.point);
    let is_of_lock = |point: &&Point| point.path == "run.lock";
    let points = points
        .skip_while(|point| !is_of_lock(point))
        .skip_while(is_of_lock);
    let mut replaced = 0;
    for point in points.step_by(13) {
        let Some(found) = trial.with_link(point).expect("a run") else {
            continue;
        };
        replaced += 1;
        let finished = &found.finished;
        let at = format!("replaced before {point}: {}", finished.stderr);
        let elsewhere = found.elsewhere.iter();
        let elsewhere: Vec<_> = elsewhere.filter(|name| *name != ".breadcrumbs").collect();
        assert_eq!(
            elsewhere,
            ["checkpoints", "checkpoints/epoch-1", "model"],
            "{at}"
        );
        if finished.code == 0 {
            // Replaced in the last of its calls.
            assert!(found.moved.contains(&"run.json".to_owned()), "{at}");
            continue;
        }
        // A request of a hook that can't be served is that hook's failure.
        assert!([4, 7].contains(&finished.code), "{}: {at}", finished.code);
        assert!(
            finished
                .stderr
                .contains("is not the one in which the run began"),
            "{at}"
        );
    }
    assert!(replaced > 10, "{replaced}");
}

#[test]
fn a_run_with_a_failing_call_says_so_or_ends_with_the_same_weights_and_files() {
    if !can_be_stopped() {
        return;
    }
    let hooks = ["checkpoint", "early-stopping", "csv"];
    let (mut trial, recording) = Trial::new(&PLUGINS, &run_with(&hooks)).expect("a recording");
    let mut failed = 0;
    for cut in recording.cuts.iter().step_by(47) {
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

/// A hook that can't write ends the run in the middle of a mount point, and perhaps of another hook's save: what is resumed from
/// is not the state of that moment if there is another.
#[test]
fn a_run_in_which_a_hooks_file_fails_ends_with_the_same_weights_and_files() {
    if !can_be_stopped() {
        return;
    }
    for (hooks, file) in [
        (["checkpoint", "early-stopping", "csv"], "train.csv"),
        (["background", "early-stopping", "jsonl"], "log.jsonl"),
    ] {
        let (mut trial, recording) = Trial::new(&PLUGINS, &run_with(&hooks)).expect("a recording");
        let points = recording.cuts.iter().map(|cut| &cut.point);
        let mut resumed = 0;
        for at in points.filter(|point| point.path == file) {
            let outcome = trial
                .with_error(at, libc::EIO, Failing::Once)
                .expect("a run");
            let Some(outcome) = outcome else { continue };
            assert!(outcome.is_right_after_error(), "{hooks:?}, {at}: {outcome}");
            resumed += usize::from(outcome == Outcome::Same);
        }
        assert!(resumed > 5, "{hooks:?}: {resumed}");
    }
}
