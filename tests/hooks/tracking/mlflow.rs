//! `mlflow`: what a server gets that speaks as MLflow does. `tests/mlflow.sh` asks a real one.

use std::collections::BTreeMap;
use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

use super::server::{Request, Server};
use super::{PLUGINS, refused, save};

/// A server that knows no experiment but makes them, and one run.
fn server() -> Server {
    Server::start(|request, _| {
        let path = request.path.split('?').next().unwrap_or_default();
        let answer = match path.trim_start_matches("/api/2.0/mlflow/") {
            "experiments/get-by-name" => {
                let problem = json!({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment"});
                return (404, problem.to_string());
            }
            "experiments/create" => json!({"experiment_id": "7"}),
            "runs/create" => {
                json!({"run": {"info": {"run_id": "r1", "artifact_uri": "mlflow-artifacts:/7/r1/artifacts"}}})
            }
            _ => json!({}),
        };
        (200, answer.to_string())
    })
}

fn run(server: &Server, mut config: Value, more: &[Value]) -> (Workplace, Finished) {
    if config.get("uri").is_none() {
        config["uri"] = json!(format!("{}/", server.address));
    }
    let place = Workplace::new(PLUGINS);
    let mut hooks = vec![json!({"hook": "mlflow", "config": config})];
    hooks.extend(more.iter().cloned());
    place.write(&edit(tiny(), "/hooks", Value::Array(hooks)));
    let finished = sconce(&place, &["run", "manifest.json"]);
    (place, finished)
}

fn sconce(place: &Workplace, arguments: &[&str]) -> Finished {
    let environment = [("NO_PROXY", "127.0.0.1"), ("TOKEN", "abc")];
    place.sconce_in(arguments, &environment)
}

/// The requests to one end of the interface.
fn to<'a>(requests: &'a [Request], what: &str) -> Vec<&'a Request> {
    let path = format!("/api/2.0/mlflow/{what}");
    requests
        .iter()
        .filter(|request| request.path.starts_with(&path))
        .collect()
}

/// All that was logged under `metrics`, `params` or `tags`.
fn logged(requests: &[Request], what: &str) -> Vec<Value> {
    let batches = to(requests, "runs/log-batch");
    let mut all = Vec::new();
    for batch in batches {
        let json = batch.json();
        assert_eq!(json["run_id"], "r1");
        all.extend(json[what].as_array().into_iter().flatten().cloned());
    }
    all
}

/// Steps and values of each metric.
fn series(metrics: &[Value]) -> BTreeMap<String, Vec<(u64, Value)>> {
    let mut all: BTreeMap<String, Vec<(u64, Value)>> = BTreeMap::new();
    for metric in metrics {
        assert!(
            metric["timestamp"]
                .as_u64()
                .is_some_and(|time| time > 1_700_000_000_000)
        );
        let key = metric["key"].as_str().expect("a key").to_owned();
        let step = metric["step"].as_u64().expect("a step");
        all.entry(key)
            .or_default()
            .push((step, metric["value"].clone()));
    }
    all
}

fn steps(of: &[(u64, Value)]) -> Vec<u64> {
    of.iter().map(|(step, _)| *step).collect()
}

#[test]
fn a_run_is_logged_from_its_begin_to_its_end() {
    let server = server();
    let config = json!({"experiment": "my digits", "interval": 2, "tags": {"who": "me"}, "artifacts": ["manifest.json"]});
    let (place, finished) = run(&server, config, &[]);
    let finished = finished.expect(0, &[]);
    assert!(!finished.stderr.contains("warning"), "{}", finished.stderr);
    let requests = server.requests();
    assert_eq!(requests[0].method, "GET");
    assert_eq!(
        requests[0].path,
        "/api/2.0/mlflow/experiments/get-by-name?experiment_name=my%20digits"
    );
    assert_eq!(requests[1].json(), json!({"name": "my digits"}));
    let create = to(&requests, "runs/create")[0].json();
    assert_eq!(create["experiment_id"], "7");
    assert_eq!(create["run_name"], "tiny");
    assert!(create["start_time"].is_u64());
    let tags = create["tags"].as_array().expect("tags");
    assert!(
        tags.contains(&json!({"key": "who", "value": "me"})),
        "{tags:?}"
    );
    assert!(
        tags.contains(&json!({"key": "mlflow.runName", "value": "tiny"})),
        "{tags:?}"
    );

    let params = logged(&requests, "params");
    assert!(
        params.contains(&json!({"key": "train.epochs", "value": "2"})),
        "{params:?}"
    );
    assert!(
        params.contains(&json!({"key": "hooks.0.hook", "value": "mlflow"})),
        "{params:?}"
    );

    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let series = series(&logged(&requests, "metrics"));
    assert_eq!(steps(&series["iteration/loss"]), [2, 4, 6]);
    assert_eq!(series["learning_rate"][0].1, 0.01);
    assert_eq!(steps(&series["train/accuracy"]), [3, 6]);
    for phase in ["train", "val", "test"] {
        let (step, value) = series[&format!("{phase}/loss")].last().expect("a value");
        assert_eq!(
            (*step, value),
            (6, &record["metrics"][phase]["loss"]),
            "{phase}"
        );
    }

    let upload = requests
        .iter()
        .find(|request| request.method == "PUT")
        .expect("an upload");
    assert_eq!(
        upload.path,
        "/api/2.0/mlflow-artifacts/artifacts/7/r1/artifacts/manifest.json"
    );
    assert_eq!(
        upload.body,
        fs::read(place.path("out/manifest.json")).expect("a file")
    );
    let outcome = json!({"key": "sconce.outcome", "value": "completed"});
    assert!(logged(&requests, "tags").contains(&outcome));
    let last = requests.last().expect("a request");
    assert_eq!(last.path, "/api/2.0/mlflow/runs/update");
    assert_eq!(last.json()["status"], "FINISHED");
    assert!(last.json()["end_time"].is_u64());
}

#[test]
fn each_end_has_its_status() {
    let fault =
        json!({"hook": "fault", "config": {"at": "after_update", "how": "error", "from_call": 3}});
    let stop = json!({"hook": "asker", "config": {"at": "after_iter", "phase": "train", "what": "stop",
        "text": "enough", "after_iteration": 4, "once": true}});
    for (hook, code, status, reason) in [
        (stop, 0, "FINISHED", "enough"),
        (fault, 4, "FAILED", "told to fail"),
    ] {
        let server = server();
        let (_, finished) = run(&server, json!({}), &[hook]);
        finished.expect(code, &[]);
        let requests = server.requests();
        assert_eq!(requests.last().expect("one").json()["status"], status);
        let tags = logged(&requests, "tags");
        let told = tags
            .iter()
            .find(|tag| tag["key"] == "sconce.reason")
            .expect("a reason");
        assert!(
            told["value"]
                .as_str()
                .is_some_and(|text| text.contains(reason)),
            "{told}"
        );
    }
}

#[test]
fn options_choose_what_is_logged() {
    let server = server();
    let config = json!({"params": false, "interval": 3, "by_epoch": false, "learning_rate": false,
        "run_name": "other", "token_from": "TOKEN"});
    let (_, finished) = run(&server, config, &[]);
    finished.expect(0, &[]);
    let requests = server.requests();
    assert_eq!(logged(&requests, "params"), [] as [Value; 0]);
    let series = series(&logged(&requests, "metrics"));
    assert_eq!(
        series.keys().collect::<Vec<_>>(),
        ["iteration/accuracy", "iteration/loss"]
    );
    assert_eq!(steps(&series["iteration/loss"]), [3, 6]);
    assert_eq!(to(&requests, "runs/create")[0].json()["run_name"], "other");
    assert!(
        requests
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer abc"))
    );
    assert!(
        to(&requests, "experiments/get-by-name")[0]
            .path
            .ends_with("=Default")
    );

    let server = self::server();
    let manifest = edit(tiny(), "/metrics", json!([{"kind": "confusion-matrix"}]));
    for tables in [false, true] {
        let before = server.requests().len();
        let config = json!({"uri": server.address, "tables": tables, "interval": 0});
        let place = Workplace::new(PLUGINS);
        place.write(&edit(
            manifest.clone(),
            "/hooks",
            json!([{"hook": "mlflow", "config": config}]),
        ));
        sconce(&place, &["run", "manifest.json"]).expect(0, &[]);
        let series = self::series(&logged(&server.requests()[before..], "metrics"));
        assert_eq!(series.keys().any(|key| key.contains("confusion")), tables);
        assert!(!series.contains_key("iteration/loss"));
    }
}

#[test]
fn a_resumed_run_goes_on_with_its_run_and_sends_nothing_twice() {
    let straight = server();
    let (place, finished) = run(&straight, json!({"interval": 1}), &[save(4)]);
    finished.expect(0, &[]);
    let before = straight.requests().len();
    // As if it had been killed behind iteration 5: the server has nothing of what came then.
    let path = place.path("out/mlflow-run.json");
    let mut known: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    for (key, step) in known["steps"].as_object_mut().expect("steps") {
        *step = json!(if key.starts_with("iteration") || key == "learning_rate" {
            5
        } else {
            3
        });
    }
    known["steps"]
        .as_object_mut()
        .expect("steps")
        .remove("test/loss");
    fs::write(&path, known.to_string()).expect("written");
    sconce(&place, &["run", "manifest.json", "--resume", "here"]).expect(0, &["resumes from"]);
    let requests = straight.requests();
    let (first, again) = requests.split_at(before);
    assert_eq!(again[0].path, "/api/2.0/mlflow/runs/update");
    assert_eq!(again[0].json()["status"], "RUNNING");
    assert!(to(again, "runs/create").is_empty() && logged(again, "params").is_empty());
    let (first, again) = (
        series(&logged(first, "metrics")),
        series(&logged(again, "metrics")),
    );
    assert_eq!(steps(&again["iteration/loss"]), [6]);
    assert_eq!(steps(&again["val/loss"]), [6]);
    for (key, values) in &again {
        assert_eq!(values.last(), first[key].last(), "{key}");
    }
    assert_eq!(again["test/loss"].len(), 1);
}

#[test]
fn a_bad_server_does_not_end_the_run() {
    let refusing = Server::start(|_, _| (403, json!({"message": "who are you?"}).to_string()));
    let (_, finished) = run(&refusing, json!({}), &[]);
    finished.expect(0, &["warning: mlflow: the MLflow server refuses `experiments/get-by-name` (status 403): who are you?"]);
    let (_, finished) = run(&refusing, json!({"on_failure": "ignore"}), &[]);
    assert!(!finished.expect(0, &[]).stderr.contains("warning"));
    let (_, finished) = run(&refusing, json!({"on_failure": "error"}), &[]);
    finished.expect(4, &["who are you?"]);
    let slow = Server::start(|_, _| {
        std::thread::sleep(std::time::Duration::from_secs(3600));
        (200, String::new())
    });
    let (_, finished) = run(
        &slow,
        json!({"interval": 1, "queue": 1, "timeout": 0.2}),
        &[],
    );
    finished.expect(0, &["the server is slower than the run"]);
}

#[test]
fn a_wrong_mlflow_is_refused() {
    refused(
        "mlflow",
        json!({"uri": "localhost:5000"}),
        &["`uri` must be an address"],
    );
    refused(
        "mlflow",
        json!({"artifacts": ["../x"]}),
        &["stay below it: `../x`"],
    );
    refused("mlflow", json!({"queue": 0}), &["hooks[0].config.queue"]);
    refused(
        "mlflow",
        json!({"token_from": "SCONCE_NOT_SET"}),
        &["`SCONCE_NOT_SET`"],
    );
}
