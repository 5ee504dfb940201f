//! Tests of the state saved in and loaded from checkpoints.

use std::path::{Path, PathBuf};

use crate::plugin::entry_error::EntryError;
use crate::plugin::instance::HookInstance;
use crate::random::stream;
use crate::validate::finding::{Checked, Finding, failed, passed, skipped, warning};
use crate::validate::stage::trial::TrialEnvironment;
use crate::validate::stage::witness::{Act, Recorder, WitnessScript, measured};
use crate::validate::stage::{Played, Script, state_in};
use crate::validate::subject::Subject;
use crate::validate::test::{Test, TestGroup, TestScope};

pub(super) const GROUP: TestGroup = TestGroup {
    name: "state",
    about: "what goes into checkpoints and comes back",
    tests: &[
        Test {
            name: "state.round-trip",
            about: "A state that is loaded and saved again has the same bytes.",
            advice: "Save every field that `load_state` sets, in a fixed order: no hash maps, no \
                     clocks.",
            level: 3,
            scope: TestScope::Hook,
            check: round_trip,
        },
        Test {
            name: "state.resume",
            about: "A run that is resumed in the middle publishes and asks for the same, with the same \
                    parameters and state in the end, as one that was never stopped.",
            advice: "Save everything that later calls depend on, counters and running sums included.",
            level: 3,
            scope: TestScope::Hook,
            check: resume,
        },
        Test {
            name: "state.resume-anywhere",
            about: "The same from every iteration of the run.",
            advice: "See `state.resume`; look at epochs under way and at updates half accumulated.",
            level: 8,
            scope: TestScope::Hook,
            check: resume_anywhere,
        },
        Test {
            name: "state.damaged",
            about: "A state that is cut off, foreign or random is an error, never a panic.",
            advice: "Check in `state_restored` what the types of the fields don't: lengths, ranges, counts.",
            level: 4,
            scope: TestScope::Hook,
            check: damaged,
        },
        Test {
            name: "state.after-damage",
            about: "A hook that has refused a state can still be saved, loaded and dropped.",
            advice: "Read the whole state before a field is changed.",
            level: 5,
            scope: TestScope::Hook,
            check: after_damage,
        },
        Test {
            name: "state.size",
            about: "The state does not grow with the length of the run.",
            advice: "Keep sums, not histories; write what must be kept to the run's directory.",
            level: 6,
            scope: TestScope::Hook,
            check: size,
        },
    ],
};

/// Number of iterations of the small run: two epochs of three.
const ITERATIONS: u64 = 6;

/// Plays a run with checkpoints after these iterations.
fn saved_at(subject: &Subject, iterations: &[u64]) -> Result<Played, Finding> {
    let played = subject.play(&Script {
        part: WitnessScript {
            saves: iterations.to_vec(),
            ..WitnessScript::default()
        },
        ..Script::plain("saved")
    })?;
    played.without_panic()?;
    Ok(played)
}

/// Calls `body` with a newly created hook, outside any run but with a copy of this run's files.
fn with_fresh<T>(
    subject: &Subject,
    run: &Path,
    body: impl FnOnce(&mut HookInstance) -> Result<T, Finding>,
) -> Result<T, Finding> {
    let config = subject.config()?.to_string();
    let files = copy_of(run, subject, "fresh")?;
    let recorder = Recorder::default();
    let trial = TrialEnvironment::within(subject, &recorder, &files)?;
    trial.with(&config, body)
}

fn wrong(what: &str, error: &EntryError) -> Finding {
    let how = if error.is_panic() {
        "panicked"
    } else {
        "failed"
    };
    failed(format!("{what} {how}: {}", error.message))
}

/// The iteration in the middle of the run at which states are taken.
const MIDDLE: u64 = 4;

/// The state in the middle of a run, which was stopped there, and the run's directory. Skips the test if
/// there is no state.
fn state(subject: &Subject) -> Result<(Vec<u8>, PathBuf), Finding> {
    let played = subject.play(&Script {
        part: WitnessScript {
            saves: vec![MIDDLE],
            stops: Some(MIDDLE),
            ..WitnessScript::default()
        },
        ..Script::plain("saved")
    })?;
    played.without_panic()?;
    let state = state_in(&played.checkpoint(MIDDLE))?;
    if state.is_empty() {
        return Err(skipped("it has no state"));
    }
    Ok((state, played.directory))
}

fn round_trip(subject: &Subject) -> Checked {
    let (state, run) = state(subject)?;
    subject.doing("loading and saving a state");
    let again = with_fresh(subject, &run, |fresh| {
        let loaded = fresh.load_state(&state);
        loaded.map_err(|error| wrong("loading its own state", &error))?;
        let saved = fresh.save_state();
        saved.map_err(|error| wrong("saving the state again", &error))
    })?;
    if again != state {
        return Ok(failed(difference(&state, &again)));
    }
    Ok(passed(format!("{} bytes", state.len())))
}

/// Describes where two states begin to differ.
fn difference(one: &[u8], other: &[u8]) -> String {
    let place = one.iter().zip(other).position(|(one, other)| one != other);
    let place = place.unwrap_or(one.len().min(other.len()));
    let shown = |state: &[u8]| {
        let from = place.saturating_sub(20);
        let part = state.get(from..).unwrap_or_default();
        let part = part.get(..60.min(part.len())).unwrap_or_default();
        String::from_utf8_lossy(part).into_owned()
    };
    format!(
        "{} bytes and {} bytes, different from byte {place} on:\n  {:?}\n  {:?}",
        one.len(),
        other.len(),
        shown(one),
        shown(other)
    )
}

fn resume(subject: &Subject) -> Checked {
    resumed_from(subject, &[4])
}

fn resume_anywhere(subject: &Subject) -> Checked {
    resumed_from(subject, &(1..ITERATIONS).collect::<Vec<u64>>())
}

fn resumed_from(subject: &Subject, iterations: &[u64]) -> Checked {
    let mut saves = iterations.to_vec();
    saves.push(ITERATIONS);
    let whole = saved_at(subject, &saves)?;
    if whole.report.iterations < ITERATIONS {
        return Ok(skipped(format!(
            "the run does not come so far: {}",
            whole.ending()
        )));
    }
    let mut count = 0;
    for &iteration in iterations {
        let from = whole.checkpoint(iteration);
        // The directory is a copy of the first run's, as if that had been stopped here: what the hook has
        // written since then must be discarded by its resume.
        let part = subject.play(&Script {
            part: WitnessScript {
                saves: saves.iter().copied().filter(|at| *at > iteration).collect(),
                ..WitnessScript::default()
            },
            resume: Some(from),
            directory: Some(copy_of(&whole.directory, subject, "resumed")?),
            ..Script::plain("resumed")
        })?;
        part.without_panic()?;
        let again = || saved_at(subject, &saves);
        compare(&whole, &part, iteration, again)?;
        count += acts_after(&part, iteration).len();
    }
    Ok(passed(format!(
        "{count} publications and requests are the same"
    )))
}

/// A modifiable copy of a run's directory.
fn copy_of(run: &Path, subject: &Subject, name: &str) -> Result<PathBuf, Finding> {
    let target = subject.place.join(name);
    let cleared = match std::fs::remove_dir_all(&target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    let copied = cleared.and_then(|()| copy_all(run, &target));
    copied.map_err(|error| skipped(format!("the test's files can't be copied: {error}")))?;
    Ok(target)
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_all(&path, &target)?;
        } else if entry.file_type()?.is_file() {
            std::fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Actions of the hook after `iteration` was finished and left.
fn acts_after(played: &Played, iteration: u64) -> Vec<Act> {
    let acts = played.recorder.acts.borrow();
    let is_after = |act: &Act| {
        let number = act.moment.split("iteration ").nth(1).unwrap_or_default();
        let number = number.split(',').next().unwrap_or_default().parse::<u64>();
        let is_restored = act.moment.starts_with("before_run")
            || act.moment.starts_with("before_loop (train)")
            || act.moment.starts_with("after_load_checkpoint");
        let same = act.moment.starts_with("after_iter (train)");
        !is_restored
            && number.is_ok_and(|number| number > iteration || number == iteration && !same)
    };
    acts.iter().filter(|act| is_after(act)).cloned().collect()
}

/// Compares an uninterrupted run with a resumed one, which must act alike. `again` plays a second
/// uninterrupted run, to find the measured values, which differ anyway.
fn compare(
    whole: &Played,
    part: &Played,
    iteration: u64,
    again: impl FnOnce() -> Result<Played, Finding>,
) -> Result<(), Finding> {
    if whole.bits != part.bits {
        return Err(failed(format!(
            "resumed after iteration {iteration}, the parameters end with other bits"
        )));
    }
    let (expected, found) = (acts_after(whole, iteration), acts_after(part, iteration));
    let found = skip_begin(found, &expected);
    let end = |played: &Played| state_in(&played.checkpoint(ITERATIONS));
    let (state, other) = (end(whole)?, end(part)?);
    if expected == found && state == other {
        return Ok(());
    }
    let again = again()?;
    let measured = measured(&whole.recorder.acts.borrow(), &again.recorder.acts.borrow());
    let same = |one: &Act, other: &Act| {
        one == other || one.is_like(other) && measured.contains(&one.action)
    };
    let pairs = expected.iter().zip(&found);
    let first = pairs.clone().position(|(one, other)| !same(one, other));
    let shorter = expected.len().min(found.len());
    let first = first.or((expected.len() != found.len()).then_some(shorter));
    if let Some(at) = first {
        let told = |act: Option<&Act>| act.map_or("does nothing more".to_owned(), Act::told);
        return Err(failed(format!(
            "resumed after iteration {iteration}:\n  uninterrupted it {}\n  resumed it {}",
            told(expected.get(at)),
            told(found.get(at))
        )));
    }
    if state != other && end(&again)? == state {
        return Err(warning(format!(
            "resumed after iteration {iteration}, it publishes and asks for the same, but its state \
             in the end is another: {}",
            difference(&state, &other)
        )));
    }
    Ok(())
}

/// Drops what hooks did in a resumed run before the checkpoint was restored. It is kept if the uninterrupted
/// run did the same there: a resumed run begins like any other.
fn skip_begin(found: Vec<Act>, expected: &[Act]) -> Vec<Act> {
    let more = found.len().saturating_sub(expected.len());
    match found.get(more..) {
        Some(rest) if (rest.iter().zip(expected)).all(|(one, other)| one.is_like(other)) => {
            rest.to_vec()
        }
        _ => found,
    }
}

fn damaged(subject: &Subject) -> Checked {
    let (state, run) = state(subject)?;
    let mut taken = Vec::new();
    let mut count = 0;
    for (what, bytes) in damages(subject, &state) {
        subject.doing(format_args!("loading a state that is {what}"));
        count += 1;
        let result = with_fresh(subject, &run, |fresh| Ok(fresh.load_state(&bytes)))?;
        match result {
            Err(error) if error.is_panic() => return Ok(wrong(&what, &error)),
            Err(_) => {}
            Ok(()) => taken.push(what),
        }
    }
    if taken.is_empty() {
        return Ok(passed(format!("{count} refused")));
    }
    let first = taken.first().cloned().unwrap_or_default();
    Ok(warning(format!(
        "{} of {count} are taken for states, as one that is {first}",
        taken.len()
    )))
}

/// Damaged states: truncated at every hundredth, foreign, or random.
fn damages(subject: &Subject, state: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    // No bytes are the state of a version that had none.
    let mut last = Some(0);
    for percent in 1..100 {
        let length = state.len() * percent / 100;
        if last != Some(length) {
            let cut = state.get(..length).unwrap_or_default().to_vec();
            all.push((format!("cut off after {length} bytes"), cut));
        }
        last = Some(length);
    }
    let foreign: [&[u8]; 6] = [
        b"\"text\"",
        b"-1",
        b"{\"version\":99}",
        b"[[1,2],{\"a\":null}]",
        b"\xff\xfe\x00",
        b"[[[[",
    ];
    for foreign in foreign {
        let text = String::from_utf8_lossy(foreign);
        all.push((format!("the foreign text `{text}`"), foreign.to_vec()));
    }
    let mut stream = stream(subject.seed, "validate.state", 0, 0);
    for (index, length) in [1, 7, 64, 1024, 1 << 20].into_iter().enumerate() {
        let random = (0..length).map(|_| stream.bits() as u8).collect();
        all.push((format!("{length} random bytes (number {index})"), random));
    }
    all
}

fn after_damage(subject: &Subject) -> Checked {
    let (state, run) = state(subject)?;
    let half = state.get(..state.len() / 2).unwrap_or_default();
    subject.doing("going on after a state that is cut off");
    let again = with_fresh(subject, &run, |fresh| {
        if let Err(error) = fresh.load_state(half)
            && error.is_panic()
        {
            return Err(wrong("loading a half state", &error));
        }
        let saved = fresh.save_state();
        saved.map_err(|error| wrong("saving after a refused state", &error))?;
        let loaded = fresh.load_state(&state);
        loaded.map_err(|error| wrong("loading after a refused state", &error))?;
        let saved = fresh.save_state();
        saved.map_err(|error| wrong("saving", &error))
    })?;
    if again != state {
        return Ok(failed(format!(
            "after a refused state a good one is not restored whole: {}",
            difference(&state, &again)
        )));
    }
    Ok(passed(""))
}

fn size(subject: &Subject) -> Checked {
    let sizes = [(2, 6), (40, 120)].map(|(epochs, last)| {
        let played = subject.play(&Script {
            edits: vec![("/train/epochs", serde_json::json!(epochs))],
            part: WitnessScript {
                saves: vec![last],
                ..WitnessScript::default()
            },
            ..Script::plain(if epochs == 2 { "short" } else { "long" })
        })?;
        played.without_panic()?;
        if played.report.iterations < last {
            return Err(skipped(format!(
                "the run does not come so far: {}",
                played.ending()
            )));
        }
        Ok(state_in(&played.checkpoint(last))?.len())
    });
    let [short, long] = sizes;
    let (short, long) = (short?, long?);
    let facts = format!("{short} bytes after 6 iterations, {long} after 120");
    // Numbers have more digits later on.
    if long > 2 * short + 1024 {
        return Ok(warning(facts));
    }
    Ok(passed(facts))
}
