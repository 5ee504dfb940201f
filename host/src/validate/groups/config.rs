//! Tests of configurations: what the schema states, and how the hook handles it.

use serde_json::{Value, json};

use crate::manifest::schema_check;
use crate::random::stream;
use crate::validate::finding::{
    Checked, Finding, Verdict, failed, passed, skipped, unless, warning,
};
use crate::validate::stage::Script;
use crate::validate::stage::configs::{self, options, required};
use crate::validate::stage::trial::TrialEnvironment;
use crate::validate::stage::witness::Recorder;
use crate::validate::subject::Subject;
use crate::validate::test::{Test, TestGroup, TestScope};

pub(super) const GROUP: TestGroup = TestGroup {
    name: "config",
    about: "what the schema says of the configuration, and what the hook makes of it",
    tests: &[
        Test {
            name: "config.schema",
            about: "The schema is a valid JSON Schema of an object.",
            advice: "Derive `JsonSchema` for the configuration and leave the schema to it.",
            level: 1,
            scope: TestScope::Hook,
            check: schema,
        },
        Test {
            name: "config.defaults",
            about: "Where the schema requires nothing, an empty configuration is taken.",
            advice: "Give every option a default that works, or leave its default out so that it is \
                     required.",
            level: 1,
            scope: TestScope::Hook,
            check: defaults,
        },
        Test {
            name: "config.unknown-keys",
            about: "A key that the hook does not know is refused, by its name.",
            advice: "Write `#[serde(deny_unknown_fields)]` on the configuration.",
            level: 2,
            scope: TestScope::Hook,
            check: unknown_keys,
        },
        Test {
            name: "config.described",
            about: "Every option has a description.",
            advice: "Write a doc comment on every field of the configuration.",
            level: 5,
            scope: TestScope::Hook,
            check: described,
        },
        Test {
            name: "config.wrong-types",
            about: "A value of a wrong type is refused with an error that names the key.",
            advice: "Leave reading to serde's derive, and return errors from `Hook::new`.",
            level: 3,
            scope: TestScope::Hook,
            check: wrong_types,
        },
        Test {
            name: "config.ranges",
            about: "A number at its bounds causes no panic, and one beyond them an error that \
                    names the key.",
            advice: "Write `#[schemars(range(min = …, max = …))]` on numbers, and check what it can't \
                     say in `Hook::new`.",
            level: 4,
            scope: TestScope::Hook,
            check: ranges,
        },
        Test {
            name: "config.not-json",
            about: "Anything that is not a configuration (not JSON, not an object, far too deep, a megabyte) is \
                    an error.",
            advice: "Leave reading to serde's derive.",
            level: 5,
            scope: TestScope::Hook,
            check: not_json,
        },
        Test {
            name: "config.random",
            about: "Of 100 random configurations those that the schema allows never make the hook \
                    panic, and those that it forbids are refused.",
            advice: "Return an error from `Hook::new` for what can't be done.",
            level: 6,
            scope: TestScope::Hook,
            check: random,
        },
        Test {
            name: "config.random-runs",
            about: "Runs with random configurations that the hook has taken have no panic.",
            advice: "Return an error from `Hook::new` for a configuration that can't work.",
            level: 8,
            scope: TestScope::Hook,
            check: random_runs,
        },
        Test {
            name: "config.extremes",
            about: "Runs with each number at the least and the greatest that the schema allows have \
                    no panic.",
            advice: "Give numbers a range in which the hook can work.",
            level: 9,
            scope: TestScope::Hook,
            check: extremes,
        },
    ],
};

fn schema(subject: &Subject) -> Checked {
    let schema = subject.schema()?;
    if let Err(error) = sconce_schema::check_schema(&schema) {
        return Ok(failed(format!("it is not a valid JSON Schema: {error}")));
    }
    if let Err(error) = sconce_schema::CompiledSchema::new(&schema) {
        return Ok(failed(format!("it can't be used as a schema: {error}")));
    }
    if schema.get("type") != Some(&json!("object")) {
        return Ok(failed("it is not a schema of an object"));
    }
    let count = options(&schema).len();
    let required = required(&schema);
    Ok(passed(match required.as_slice() {
        [] => format!("{count} options"),
        keys => format!("{count} options, required: {}", keys.join(", ")),
    }))
}

fn defaults(subject: &Subject) -> Checked {
    let schema = subject.schema()?;
    let required = required(&schema);
    if !required.is_empty() {
        let keys = required.join(", ");
        return Ok(skipped(format!("the schema requires {keys}")));
    }
    let script = Script {
        config: Some(json!({})),
        edits: vec![("/train/epochs", json!(0))],
        ..Script::plain("defaults")
    };
    match subject.try_play(&script) {
        Ok(_) => Ok(passed("")),
        Err(refusal) if refusal.is_panic() => Ok(failed(refusal.text)),
        // It may require one of several options, which a schema can hardly express.
        Err(refusal) => Ok(warning(refusal.line())),
    }
}

fn unknown_keys(subject: &Subject) -> Checked {
    let schema = subject.schema()?;
    let config = configs::with(&subject.config()?, "no_such_key", json!(1));
    let problems = schema_check::check(&config, &schema);
    if problems.iter().any(|problem| problem.path == "no_such_key") {
        return Ok(passed(""));
    }
    Ok(failed(
        "`no_such_key` is taken: mistyped options are ignored",
    ))
}

fn described(subject: &Subject) -> Checked {
    let schema = subject.schema()?;
    let options = options(&schema);
    let has_words = |option: &Value| option.get("description").is_some_and(Value::is_string);
    let bare = options.iter().filter(|(_, option)| !has_words(option));
    let problems: Vec<String> = bare
        .map(|(key, _)| format!("`{key}` has no description"))
        .collect();
    Ok(unless(
        &problems,
        Verdict::Warning,
        format!("{} options", options.len()),
    ))
}

fn wrong_types(subject: &Subject) -> Checked {
    each_value(subject, |_| configs::kinds())
}

fn ranges(subject: &Subject) -> Checked {
    each_value(subject, configs::bounds)
}

/// Sets every option to each of the given values. Values that the schema rejects must be rejected with the
/// option's name, and nothing may panic.
fn each_value(subject: &Subject, values: fn(&Value) -> Vec<Value>) -> Checked {
    let schema = subject.schema()?;
    let least = subject.config()?;
    let recorder = Recorder::default();
    let trial = TrialEnvironment::new(subject, &recorder)?;
    let (mut problems, mut refused, mut taken) = (Vec::new(), 0, 0);
    for (key, option) in options(&schema) {
        for value in values(option) {
            let config = configs::with(&least, key, value);
            let told = schema_check::check(&config, &schema);
            let is_named = told.iter().any(|problem| problem.path.starts_with(key));
            if told.is_empty() {
                taken += 1;
            } else if is_named {
                refused += 1;
            } else {
                problems.push(format!("the error of {config} does not name `{key}`"));
            }
            subject.doing(format_args!("the creation with {config}"));
            problems.extend(trial.problem(&config.to_string()));
        }
    }
    if refused + taken == 0 && problems.is_empty() {
        return Ok(skipped("there is no such option"));
    }
    let facts = format!("{refused} values refused by the schema, {taken} allowed");
    Ok(unless(&problems, Verdict::Failed, facts))
}

fn not_json(subject: &Subject) -> Checked {
    let recorder = Recorder::default();
    let trial = TrialEnvironment::new(subject, &recorder)?;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let long = json!({"no_such_key": "x".repeat(1 << 20)}).to_string();
    let mut problems = Vec::new();
    for text in [
        "", "{", "null", "[]", "3", "\"text\"", "{} {}", &deep, &long,
    ] {
        let shown = crate::diagnostic::shortened(text);
        subject.doing(format_args!("the creation with {shown}"));
        match trial.create(text) {
            Ok(()) => problems.push(format!("{shown} is taken for a configuration")),
            Err(error) if error.is_panic() => problems.push(error.message),
            Err(_) => {}
        }
    }
    Ok(unless(&problems, Verdict::Failed, ""))
}

fn random(subject: &Subject) -> Checked {
    let schema = subject.schema()?;
    let recorder = Recorder::default();
    let trial = TrialEnvironment::new(subject, &recorder)?;
    let mut stream = stream(subject.seed, "validate.config", 0, 0);
    let (mut problems, mut allowed, mut taken) = (Vec::new(), 0, 0);
    for index in 0..100 {
        let Some(mut config) = configs::random(&schema, &mut stream) else {
            continue;
        };
        if index % 2 == 1 {
            spoil(&mut config, &mut stream);
        }
        let is_allowed = schema_check::check(&config, &schema).is_empty();
        subject.doing(format_args!("the creation with {config}"));
        problems.extend(trial.problem(&config.to_string()));
        if is_allowed {
            allowed += 1;
            taken += i32::from(trial.create(&config.to_string()).is_ok());
        }
    }
    let facts = format!("{allowed} allowed by the schema, {taken} of them taken by the hook");
    Ok(unless(&problems, Verdict::Failed, facts))
}

/// Replaces a member's value by one of a random type, or adds a key.
fn spoil(config: &mut Value, stream: &mut crate::random::Stream) {
    let Value::Object(members) = config else {
        return;
    };
    let kinds = configs::kinds();
    let value = kinds.get(stream.below(kinds.len() as u64) as usize);
    let index = stream.below(members.len() as u64 + 1) as usize;
    let key = members.keys().nth(index).cloned();
    let key = key.unwrap_or_else(|| "no_such_key".to_owned());
    members.insert(key, value.cloned().unwrap_or_default());
}

fn random_runs(subject: &Subject) -> Checked {
    let schema = subject.schema()?;
    let mut stream = stream(subject.seed, "validate.run", 0, 0);
    let (mut ran, mut refused) = (0, 0);
    for _ in 0..12 {
        let Some(config) = configs::random(&schema, &mut stream) else {
            continue;
        };
        if run_with(subject, config)? {
            ran += 1;
        } else {
            refused += 1;
        }
    }
    Ok(passed(format!(
        "{ran} runs, {refused} configurations refused"
    )))
}

fn extremes(subject: &Subject) -> Checked {
    let schema = subject.schema()?;
    let least = subject.config()?;
    let (mut ran, mut refused) = (0, 0);
    for (key, option) in options(&schema) {
        for value in configs::bounds(option) {
            let config = configs::with(&least, key, value);
            if schema_check::check(&config, &schema).is_empty() {
                if run_with(subject, config)? {
                    ran += 1;
                } else {
                    refused += 1;
                }
            }
        }
    }
    if ran + refused == 0 {
        return Ok(skipped("no option is a number"));
    }
    Ok(passed(format!(
        "{ran} runs, {refused} configurations refused"
    )))
}

/// Plays a run with a configuration; returns whether it started. A panic ends the test.
fn run_with(subject: &Subject, config: Value) -> Result<bool, Finding> {
    let text = config.to_string();
    let told = |panic: &str| failed(format!("with {text}: {panic}"));
    let directory = subject.place.join("random");
    drop(std::fs::remove_dir_all(&directory));
    let script = Script {
        config: Some(config),
        ..Script::plain("random")
    };
    let played = match subject.try_play(&script) {
        Ok(played) => played,
        Err(refusal) if refusal.is_panic() => return Err(told(&refusal.text)),
        Err(_) => return Ok(false),
    };
    played.without_panic().map_err(|panic| told(&panic.facts))?;
    Ok(true)
}
