//! `sconce board`: the page for many runs answers its own user alone, reads below its directory alone, and writes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// A name that would be markup, end the data's element, or run, if it were not taken for text.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{202e}";

/// Two runs of a sweep and one beside it, as their hooks leave them, with things that a page must not show.
fn place() -> Workplace {
    let place = Workplace::new(&[]);
    for (path, rate, losses) in [
        ("sweep/0001", 0.1, &[2.0, 0.5, 0.75][..]),
        ("sweep/0002", 0.2, &[2.0, f64::NAN]),
        ("other", 0.1, &[]),
    ] {
        let mut manifest = edit(tiny(), "/optimizer/learning_rate", json!(rate));
        manifest["name"] = json!(HOSTILE);
        manifest["hooks"] =
            json!([{"hook": "mlflow", "config": {"token": format!("pass-{rate}")}}]);
        fs::create_dir_all(place.path(&format!("runs/{path}"))).expect("made");
        let write = |name: &str, text: &str| place.write_text(&format!("runs/{path}/{name}"), text);
        write("manifest.json", &manifest.to_string());
        write(
            "run.json",
            &json!({"outcome": "completed", "epochs": losses.len()}).to_string(),
        );
        if !losses.is_empty() {
            let rows = (1..).zip(losses);
            let rows = rows.map(|(epoch, loss)| format!("{epoch},{},{loss}\n", epoch * 10));
            let rows: String = rows.collect();
            write("val.csv", &format!("epoch,iteration,loss\n{rows}"));
        }
    }
    place.write_text("runs/sweep/trials.jsonl", "");
    place.write_text(
        "runs/sweep/results.csv",
        "trial,state,epochs,val/loss,seconds\n",
    );
    place.write_text(
        "runs/other/confusion-val.csv",
        "true \\ predicted,cat,'=dog\ncat,3,1\n'=dog,0,4\n",
    );
    place.write_text("runs/other/report.html", "<p>report</p>");
    place.write_text("runs/other/weights.safetensors", "weights");
    place.write_text("secret.csv", "epoch,loss\n1,42\n");
    place.write_text("runs/secret.csv", "beside the runs");
    symlink(place.path("secret.csv"), place.path("runs/other/val.csv")).expect("linked");
    symlink(place.directory(), place.path("runs/other/up")).expect("linked");
    symlink(place.directory(), place.path("runs/up")).expect("linked");
    place
}

/// A served page.
struct Board {
    child: Child,
    port: u16,
    token: String,
}

impl Board {
    fn start(place: &Workplace) -> Board {
        let mut command = place.command(&["board", "runs"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let output = child.stdout.take().expect("an output");
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).expect("a line");
        let (_, address) = line.split_once("http://127.0.0.1:").expect("an address");
        let (port, token) = address
            .trim()
            .trim_end_matches('/')
            .split_once('/')
            .expect("a token");
        let (port, token) = (port.parse().expect("a port"), token.to_owned());
        Board { child, port, token }
    }

    fn send(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        let patience = Duration::from_secs(45);
        stream.set_read_timeout(Some(patience)).expect("set");
        stream.write_all(head.as_bytes()).expect("sent");
        stream
    }

    /// The status, head and body of the answer to a request.
    fn ask(&self, method: &str, target: &str, lines: &str) -> (u16, String, String) {
        let mut stream = self.send(&format!("{method} {target} HTTP/1.1\r\n{lines}\r\n"));
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).expect("a status");
        (
            status.parse().expect("a number"),
            head.to_owned(),
            body.to_owned(),
        )
    }

    fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}\r\n", self.port)
    }

    fn get(&self, path: &str) -> (u16, String, String) {
        self.ask("GET", &format!("/{}/{path}", self.token), &self.host())
    }

    fn json(&self, path: &str) -> Value {
        let (status, _, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Files below a directory, with what shows that one was written.
fn files(directory: &Path) -> BTreeMap<String, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("listed") {
        let path = entry.expect("an entry").path();
        let metadata = path.symlink_metadata().expect("seen");
        if metadata.is_dir() {
            found.extend(files(&path));
        }
        let modified = metadata.modified().expect("a time");
        found.insert(path.display().to_string(), (metadata.len(), modified));
    }
    found
}

#[test]
fn a_page_has_its_runs_and_nothing_else() {
    let place = place();
    let before = files(place.directory());
    let board = Board::start(&place);

    let (status, head, page) = board.get("");
    assert_eq!(status, 200);
    assert!(page.starts_with("<!doctype html>"), "{page}");
    for line in [
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-",
        "frame-ancestors 'none'",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
    ] {
        assert!(head.contains(line), "{head}");
    }

    let table = board.json("runs.json");
    assert_eq!(
        table["runs"]["path"],
        json!(["other", "sweep/0001", "sweep/0002"])
    );
    assert_eq!(table["runs"]["name"][0], HOSTILE);
    assert_eq!(table["runs"]["state"][1], "completed");
    let loss = &table["metrics"][0];
    assert_eq!(loss["name"], "val/loss");
    assert_eq!(loss["goal"], "less");
    assert_eq!(loss["last"], json!([null, 0.75, "NaN"]));
    assert_eq!(loss["best"], json!([null, 0.5, 2.0]));
    assert_eq!(loss["at"], json!([null, 2, 1]));
    let rate = json!({"path": "optimizer.learning_rate", "values": [0.1, 0.1, 0.2]});
    assert_eq!(table["differences"], json!([rate]));
    assert_eq!(
        table["sweeps"],
        json!([{"path": "sweep", "metric": "val/loss"}])
    );

    let curve = &board.json("curves/sweep/0002")["val/loss"];
    assert_eq!(
        *curve,
        json!({"epoch": [1, 2], "iteration": [10, 20], "value": [2.0, null]})
    );
    assert_eq!(board.json("curves/other"), json!({}));
    let details = board.json("details/other");
    let names = json!(["cat", "=dog"]);
    let matrix = json!({"phase": "val", "classes": names, "rows": [[3.0, 1.0], [0.0, 4.0]]});
    assert_eq!(details["confusion"], json!([matrix]));
    let listed = json!([
        {"path": "confusion-val.csv", "kind": "text"},
        {"path": "report.html", "kind": "page"},
    ]);
    assert_eq!(details["files"], listed);
    assert!(!details.to_string().contains("pass-0.1"), "{details}");

    let (status, head, report) = board.get("file/other/report.html");
    assert_eq!((status, &*report), (200, "<p>report</p>"));
    assert!(
        head.contains("Content-Security-Policy: sandbox; default-src 'none'"),
        "{head}"
    );
    assert_eq!(files(place.directory()), before);
}

#[test]
fn what_is_not_for_the_page_is_refused() {
    let place = place();
    let board = Board::start(&place);
    let (port, token, host) = (board.port, &board.token, board.host());
    let own = format!("/{token}/runs.json");
    assert_eq!(board.ask("GET", &own, &host).0, 200);
    let origin = |origin: &str| format!("{host}Origin: {origin}\r\n");
    assert_eq!(
        board
            .ask("GET", &own, &origin(&format!("http://localhost:{port}")))
            .0,
        200
    );
    let wrong = "0".repeat(token.len());
    for (method, target, lines, expected) in [
        ("GET", "/", &*host, 403),
        ("GET", "/runs.json", &host, 403),
        ("GET", &format!("/{wrong}/runs.json"), &host, 403),
        ("GET", &format!("/?token={token}"), &host, 403),
        ("GET", &format!("http://127.0.0.1:{port}{own}"), &host, 403),
        ("GET", &own, "", 403),
        ("GET", &own, &format!("Host: evil.example:{port}\r\n"), 403),
        ("GET", &own, &format!("{host}Host: evil.example\r\n"), 403),
        ("GET", &own, &origin("http://evil.example"), 403),
        ("GET", &own, &origin("null"), 403),
        ("POST", &own, &host, 405),
        ("OPTIONS", &own, &host, 405),
    ] {
        let (status, _, body) = board.ask(method, target, lines);
        assert_eq!(status, expected, "{method} {target} {lines}: {body}");
        assert!(
            !body.contains("val/loss") && !body.contains(token),
            "{body}"
        );
    }
    let absolute = format!("file/{}", place.path("secret.csv").display());
    for path in [
        "file/../secret.csv",
        "file/other/../../secret.csv",
        "file/other/%2e%2e/%2e%2e/secret.csv",
        "file/other/..%2f..%2fsecret.csv",
        "file/other/..%5c..%5csecret.csv",
        "file/other/up/secret.csv",
        "file/other/val.csv",
        "file/up/secret.csv",
        "file/secret.csv",
        "file/%2fetc/hostname.txt",
        "file/other/manifest.json",
        "file/other/weights.safetensors",
        "file/other/",
        &absolute,
        "curves/up/runs/other",
        "curves/../runs/other",
        "details/nowhere",
        "details/%2e%2e",
        "nothing",
    ] {
        let (status, _, body) = board.get(path);
        assert_eq!(status, 404, "{path}: {body}");
    }
    for nonsense in ["\u{1}\u{2}\r\n\r\n", "GET\r\n\r\n"] {
        let mut answer = String::new();
        board
            .send(nonsense)
            .read_to_string(&mut answer)
            .expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    assert_eq!(board.ask("GET", &own, &host).0, 200, "it is still there");
}

#[test]
fn changes_arrive_and_a_signal_ends_it() {
    let place = place();
    let mut board = Board::start(&place);
    let version = board.json("runs.json")["version"]
        .as_u64()
        .expect("a number");
    let token = &board.token;
    let head = format!(
        "GET /{token}/events?since={version} HTTP/1.1\r\n{}\r\n",
        board.host()
    );
    let mut lines = BufReader::new(board.send(&head))
        .lines()
        .map(|line| line.expect("a line"));
    assert_eq!(lines.next().as_deref(), Some("HTTP/1.1 200 OK"));
    lines
        .find(|line| line.starts_with(": changes"))
        .expect("the beginning");
    place.write_text(
        "runs/sweep/0001/val.csv",
        "epoch,iteration,loss\n1,10,2\n2,20,0.25\n",
    );
    let event = lines
        .find(|line| line.starts_with("data: "))
        .expect("an event");
    let event: u64 = event
        .trim_start_matches("data: ")
        .parse()
        .expect("a number");
    assert!(event > version);
    assert_eq!(board.json("runs.json")["metrics"][0]["best"][1], 0.25);

    let process = board.child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &process]).status();
    assert!(sent.expect("started").success());
    assert_eq!(board.child.wait().expect("ended").code(), Some(130));
}

#[test]
fn a_page_in_a_file_has_all_of_it() {
    let place = place();
    let export = ["board", "runs", "--export", "page.html"];
    let said = place.sconce(&export).expect(0, &[]).stdout;
    assert_eq!(said, "3 runs in page.html\n");
    let page = place.read("page.html");
    let (_, data) = page.split_once("id=\"data\">").expect("data");
    let (data, _) = data.split_once("</script>").expect("an end");
    let data: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(data["runs"]["runs"]["name"][0], HOSTILE);
    assert_eq!(
        data["curves"]["sweep/0001"]["val/loss"]["value"],
        json!([2.0, 0.5, 0.75])
    );
    assert_eq!(data["details"]["other"]["confusion"][0]["phase"], "val");
    assert!(!page.contains("pass-0.1") && !page.contains("<img"));
    place.sconce(&["board", "nowhere"]).expect(
        2,
        &["can't read the directory `nowhere`", "sconce board DIR"],
    );
    place
        .sconce(&["board", "runs", "--export", "no/page.html"])
        .expect(7, &["can't write the page"]);
}
