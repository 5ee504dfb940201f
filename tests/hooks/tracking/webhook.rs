//! `webhook`: what a server gets, and what becomes of a run whose server is bad.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

use super::server::{Server, nobody};
use super::{PLUGINS, refused, save};

fn run(url: &str, mut config: Value, more: &[Value]) -> (Workplace, Finished) {
    config["url"] = json!(url);
    let place = Workplace::new(PLUGINS);
    let mut hooks = vec![json!({"hook": "webhook", "config": config})];
    hooks.extend(more.iter().cloned());
    place.write(&edit(tiny(), "/hooks", Value::Array(hooks)));
    let environment = [("NO_PROXY", "127.0.0.1"), ("SECRET", "abc")];
    let finished = place.sconce_in(&["run", "manifest.json"], &environment);
    (place, finished)
}

/// The events that a server gets which takes everything.
fn events(config: Value, more: &[Value]) -> Vec<Value> {
    let server = Server::start(|_, _| (200, "ok".to_owned()));
    let (_, finished) = run(&format!("{}/hook?a=b", server.address), config, more);
    finished.expect(0, &[]);
    let requests = server.requests();
    for request in &requests {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/hook?a=b")
        );
        assert_eq!(request.header("content-type"), Some("application/json"));
    }
    requests.iter().map(super::server::Request::json).collect()
}

fn kinds(events: &[Value]) -> Vec<String> {
    let kind = |event: &Value| {
        let phase = event["phase"].as_str().unwrap_or_default();
        let text = format!(
            "{} {phase} {}",
            event["event"].as_str().unwrap_or("?"),
            event["iteration"]
        );
        text.replace("  ", " ")
    };
    events.iter().map(kind).collect()
}

#[test]
fn events_of_a_run_are_posted_in_their_order() {
    let found = events(json!({}), &[]);
    let expected = [
        "start 0",
        "epoch train 3",
        "epoch val 3",
        "epoch train 6",
        "epoch val 6",
        "epoch test 6",
        "end 6",
    ];
    assert_eq!(kinds(&found), expected);
    assert_eq!(found[0]["run"], "tiny");
    assert_eq!(
        (&found[0]["resumed"], &found[0]["epochs"]),
        (&json!(false), &json!(2))
    );
    let end = &found[6];
    assert_eq!(
        (&end["outcome"], &end["reason"]),
        (&json!("completed"), &Value::Null)
    );
    assert_eq!(end["metrics"]["val"], found[4]["metrics"]);
    assert!(
        found[4]["metrics"]["loss"]
            .as_f64()
            .is_some_and(|loss| loss > 1.0)
    );
    assert!(found[1]["time"].as_f64().is_some_and(|time| time > 1.7e9));
}

#[test]
fn iterations_and_checkpoints_are_posted_where_they_are_asked_for() {
    let config = json!({"events": ["iteration", "checkpoint"], "every": 2, "metrics": ["accuracy"],
        "field": "data", "fields": {"host": "box", "try": 3}});
    let found = events(config, &[save(4)]);
    let found: Vec<Value> = found.iter().map(|event| event["data"].clone()).collect();
    assert_eq!(
        kinds(&found),
        ["iteration 2", "iteration 4", "checkpoint 4", "iteration 6"]
    );
    let names: Vec<&String> = found[0]["metrics"]
        .as_object()
        .expect("metrics")
        .keys()
        .collect();
    assert_eq!(names, ["accuracy"]);
    assert!(found[0]["loss"].is_f64() && found[0]["learning_rate"] == 0.01);
    assert_eq!(
        (&found[0]["host"], &found[0]["try"]),
        (&json!("box"), &json!(3))
    );
    assert_eq!(
        (&found[2]["tag"], &found[2]["error"]),
        (&json!("here"), &Value::Null)
    );
}

#[test]
fn a_run_that_goes_on_says_so() {
    let server = Server::start(|_, _| (200, String::new()));
    let (place, finished) = run(
        &server.address,
        json!({"events": ["start", "end"]}),
        &[save(4)],
    );
    finished.expect(0, &[]);
    let arguments = ["run", "manifest.json", "--resume", "here"];
    place
        .sconce_in(&arguments, &[("NO_PROXY", "127.0.0.1")])
        .expect(0, &["resumes from"]);
    let found: Vec<Value> = server
        .requests()
        .iter()
        .map(super::server::Request::json)
        .collect();
    assert_eq!(found.len(), 4);
    assert_eq!(found[2]["resumed"], true);
    assert_eq!(found[3]["metrics"], found[1]["metrics"]);
}

#[test]
fn headers_go_with_each_request() {
    let server = Server::start(|_, _| (204, String::new()));
    let config = json!({"events": ["end"], "headers": {"X-One": "1"}, "headers_from": {"Authorization": "SECRET"}});
    let (place, finished) = run(&server.address, config, &[]);
    finished.expect(0, &[]);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].header("x-one"), Some("1"));
    assert_eq!(requests[0].header("authorization"), Some("abc"));
    assert!(
        !place.read("out/manifest.json").contains("abc"),
        "a secret stays out of the files"
    );
}

#[test]
fn a_request_that_fails_is_made_again() {
    let server = Server::start(|_, number| (if number < 2 { 503 } else { 200 }, String::new()));
    let config = json!({"events": ["end"], "retries": 2, "retry_wait": 0.001});
    let (_, finished) = run(&server.address, config, &[]);
    let finished = finished.expect(0, &[]);
    assert_eq!(server.requests().len(), 3);
    assert!(!finished.stderr.contains("warning"), "{}", finished.stderr);
}

#[test]
fn a_bad_server_is_a_warning_or_nothing_or_an_error() {
    for (policy, code, words) in [
        (
            "warn",
            0,
            "warning: webhook: the server answers with status 500",
        ),
        ("ignore", 0, ""),
        ("error", 4, "the server answers with status 500"),
    ] {
        let server = Server::start(|_, _| (500, "no".to_owned()));
        let config = json!({"events": ["epoch", "end"], "retries": 0, "on_failure": policy});
        let (_, finished) = run(&server.address, config, &[]);
        let finished = finished.expect(code, &[words]);
        let is_told = finished.stderr.contains("status 500");
        assert_eq!(is_told, policy != "ignore", "{}", finished.stderr);
        if policy == "warn" {
            let told = "warning: webhook: 6 messages failed and 0 were left out";
            assert!(finished.stderr.contains(told), "{}", finished.stderr);
        }
    }
    let config = json!({"events": ["end"], "retries": 0});
    let (_, finished) = run(&nobody(), config, &[]);
    finished.expect(0, &["warning: webhook: the server can't be reached"]);
}

#[test]
fn a_slow_server_does_not_delay_the_run() {
    // It takes longer for one answer than the test may last.
    let server = Server::start(|_, _| {
        std::thread::sleep(std::time::Duration::from_secs(3600));
        (200, String::new())
    });
    let config = json!({"events": ["iteration", "epoch", "end"], "every": 1, "queue": 2, "timeout": 0.2,
        "retries": 0});
    let (_, finished) = run(&server.address, config, &[]);
    finished.expect(0, &["the server is slower than the run", "were left out"]);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_wrong_webhook_is_refused() {
    let hook = "webhook";
    refused(hook, json!({}), &["`url` must be an address"]);
    refused(hook, json!({"url": "https://a.example/x"}), &["plain HTTP"]);
    refused(
        hook,
        json!({"url": "http://a", "every": 0}),
        &["hooks[0].config.every"],
    );
    refused(
        hook,
        json!({"url": "http://a", "events": ["stop"]}),
        &["`start`"],
    );
    let missing = json!({"url": "http://a", "headers_from": {"A": "SCONCE_NOT_SET"}});
    refused(
        hook,
        missing,
        &["`headers_from` names the variable `SCONCE_NOT_SET`"],
    );
}
