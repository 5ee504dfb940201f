//! Tests with a host, a disk and a directory that refuse operations.

use crate::validate::finding::{Checked, Finding, failed, passed, skipped};
use crate::validate::stage::{Played, Script, resources};
use crate::validate::subject::Subject;
use crate::validate::test::{Test, TestGroup, TestScope};

pub(super) const GROUP: TestGroup = TestGroup {
    name: "faults",
    about: "a host, a disk and a directory that refuse",
    tests: &[
        Test {
            name: "faults.refusals",
            about: "Where the host refuses all that the hook asks for, publishes and writes to, the \
                    hook gives an error or goes on; it never panics.",
            advice: "Pass the host's errors on with `?`.",
            level: 4,
            scope: TestScope::Hook,
            check: refusals,
        },
        Test {
            name: "faults.directory",
            about: "A run directory in which nothing can be written is an error at most.",
            advice: "Pass errors of files on with `?` and `with_context`.",
            level: 4,
            scope: TestScope::Hook,
            check: directory,
        },
        Test {
            name: "faults.full-disk",
            about: "A disk that is full after 0, 100 and 5000 bytes of a file is an error at most.",
            advice: "Pass errors of files on; flush before the file is closed, where errors are lost.",
            level: 5,
            scope: TestScope::Hook,
            check: full_disk,
        },
    ],
};

fn refusals(subject: &Subject) -> Checked {
    let played = subject.play(&Script {
        refuses: true,
        ..Script::plain("refused")
    })?;
    let error = played.without_panic()?;
    let count = played.recorder.refused.get();
    if count == 0 {
        return Ok(passed("it wants nothing of the host"));
    }
    Ok(passed(match error {
        Some(error) => format!("{count} refused: {}", first_line(&error)),
        None => format!("{count} refused, and the run continues"),
    }))
}

fn directory(subject: &Subject) -> Checked {
    // A file takes the directory's place, which also stops the administrator.
    let file = subject.place.join("no-directory");
    if let Err(error) = std::fs::write(&file, "a file") {
        return Ok(skipped(format!("the test's files: {error}")));
    }
    let played = subject.try_play(&Script {
        directory: Some(file.join("run")),
        ..Script::plain("nowhere")
    });
    let played = match played {
        Ok(played) => played,
        Err(refusal) if refusal.is_panic() => return Ok(failed(refusal.text)),
        Err(refusal) => return Ok(passed(first_line(&refusal.text))),
    };
    told(&played).map(passed)
}

fn full_disk(subject: &Subject) -> Checked {
    let mut facts = Vec::new();
    for bytes in [0, 100, 5000] {
        let name = match bytes {
            0 => "full-at-once",
            100 => "full-soon",
            _ => "full-later",
        };
        let script = Script::plain(name);
        // The test's own files are written before the limit applies.
        let checked = subject
            .checked(&script)
            .map_err(|refusal| skipped(refusal.text))?;
        let played = resources::with_full_disk(bytes, || subject.play_checked(&script, checked));
        let Some(played) = played else {
            return Ok(skipped("this system has no such limit"));
        };
        match played {
            Ok(played) => facts.push(format!("{bytes}: {}", told(&played)?)),
            Err(refusal) if refusal.is_panic() => return Ok(failed(refusal.text)),
            Err(refusal) => facts.push(format!("{bytes}: {}", first_line(&refusal.text))),
        }
    }
    facts.dedup();
    Ok(passed(facts.join("\n")))
}

fn told(played: &Played) -> Result<String, Finding> {
    Ok(match played.without_panic()? {
        Some(error) => first_line(&error),
        None => "the run continues".to_owned(),
    })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
