//! The templates for clusters in `examples/cluster`: their directives and keys are those that Slurm and Kubernetes know, and the
//! commands in them do what they say, with a stand-in for `srun`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use saphyr::{LoadableYamlNode, Yaml};
use sconce_tests::{Finished, Workplace, tiny, workspace};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-sockets",
    "sconce-fixture-faults",
    "sconce-fixture-wrecker",
];

fn template(name: &str) -> String {
    let path: PathBuf = workspace().join("examples/cluster").join(name);
    fs::read_to_string(path).expect("a template")
}

/// A place with `run.json`, in which a hook saves a checkpoint and another kills the process after it, once.
fn place(is_struck: bool) -> Workplace {
    let place = Workplace::new(PLUGINS);
    let mut manifest = tiny();
    manifest["threads"] = json!(1);
    manifest["train"]["epochs"] = json!(2);
    manifest["distributed"] = json!({"batches": "update"});
    let saves = json!({"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "here", "once": true});
    let struck = json!({"at": "after_iter", "how": "kill", "after_iteration": 2, "once": true});
    let mut hooks = vec![json!({"hook": "asker", "config": saves})];
    if is_struck {
        hooks.push(json!({"hook": "wrecker", "config": struck}));
    }
    manifest["hooks"] = json!(hooks);
    fs::write(place.path("run.json"), manifest.to_string()).expect("written");
    place
}

/// Options of `sbatch` as its manual page has them, each with whether a value is one.
type Options = BTreeMap<&'static str, fn(&str) -> bool>;

fn of_sbatch() -> Options {
    let is_number = |text: &str| text.parse::<u32>().is_ok_and(|number| number > 0);
    let is_text = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    let is_memory = |text: &str| {
        let number = text.strip_suffix(['K', 'M', 'G', 'T']).unwrap_or(text);
        number.parse::<u32>().is_ok()
    };
    let is_time = |text: &str| {
        let parts: Vec<&str> = text.split(':').collect();
        parts.len() == 3
            && parts
                .iter()
                .all(|part| part.len() == 2 && part.parse::<u8>().is_ok())
    };
    let is_signal = |text: &str| {
        let text = text.strip_prefix("B:").unwrap_or(text);
        text.split_once('@').is_some_and(|(signal, seconds)| {
            ["USR1", "TERM", "INT"].contains(&signal) && seconds.parse::<u16>().is_ok()
        })
    };
    BTreeMap::from([
        ("job-name", is_text as fn(&str) -> bool),
        ("output", is_text),
        ("nodes", is_number),
        ("ntasks-per-node", is_number),
        ("cpus-per-task", is_number),
        ("mem-per-cpu", is_memory),
        ("time", is_time),
        ("requeue", str::is_empty),
        ("open-mode", |text| ["append", "truncate"].contains(&text)),
        ("signal", is_signal),
    ])
}

#[test]
fn the_script_for_slurm_has_directives_that_sbatch_takes() {
    let known = of_sbatch();
    let script = template("train.sbatch");
    assert!(
        script.starts_with("#!"),
        "sbatch refuses a script without one"
    );
    let mut found = Vec::new();
    let mut has_begun = false;
    for line in script.lines() {
        has_begun |= !line.starts_with('#') && !line.trim().is_empty();
        let Some(directive) = line.strip_prefix("#SBATCH ") else {
            continue;
        };
        assert!(!has_begun, "sbatch ignores what follows a command: {line}");
        let option = directive.strip_prefix("--").expect("a long option");
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let is_value = known
            .get(name)
            .unwrap_or_else(|| panic!("no option: {name}"));
        assert!(is_value(value), "{line}");
        found.push(name.to_owned());
    }
    for needed in ["requeue", "signal", "open-mode"] {
        assert!(found.iter().any(|name| name == needed), "{needed}");
    }
}

/// Runs the script for Slurm with stand-ins for Slurm's programs, of which `scontrol` notes its arguments.
fn run_script(place: &Workplace, restarts: u32) -> Finished {
    let programs = place.path("programs");
    let sconce = place.command(&["--version"]);
    let program = |name: &str, text: &str| {
        place.write_program(&format!("programs/{name}"), text);
    };
    program(
        "sconce",
        &format!("exec '{}' \"$@\"", sconce.get_program().to_string_lossy()),
    );
    program(
        "srun",
        "while [ \"${1#-}\" != \"$1\" ]; do shift; done\nexec \"$@\"",
    );
    program("scontrol", "echo \"$@\" >>scontrol.log");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = std::process::Command::new("bash");
    command
        .arg(workspace().join("examples/cluster/train.sbatch"))
        .arg("run.json")
        .current_dir(place.path("."));
    for (name, value) in sconce.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("SLURM_JOB_ID", "17")
        .env("SLURM_RESTART_COUNT", restarts.to_string());
    Finished::from(command.output().expect("it runs"))
}

#[test]
fn the_script_for_slurm_is_queued_again_after_an_accident_and_goes_on() {
    let place = place(true);
    let first = run_script(&place, 0);
    assert_eq!(first.code, 137, "{}", first.stderr);
    assert_eq!(place.read("scontrol.log"), "requeue 17\n");
    run_script(&place, 1).expect(0, &["resumes from"]);
    assert_eq!(place.read("scontrol.log"), "requeue 17\n", "it is done");
    // An error in the manifest would only come back, and a limit is one.
    fs::write(place.path("run.json"), "{").expect("written");
    run_script(&place, 0).expect(2, &[]);
    assert_eq!(place.read("scontrol.log"), "requeue 17\n");
    let place = self::place(true);
    assert_eq!(run_script(&place, 20).code, 137);
    assert!(!place.path("scontrol.log").exists());
}

/// Keys of Kubernetes' objects, by the key that they are below (`apiVersion batch/v1`, `kubeflow.org/v2beta1`, `v1`).
const KEYS: [(&str, &[&str]); 16] = [
    ("", &["apiVersion", "kind", "metadata", "spec"]),
    ("metadata", &["name", "namespace", "labels", "annotations"]),
    (
        "spec",
        &[
            "backoffLimit",
            "podFailurePolicy",
            "template",
            "restartPolicy",
            "terminationGracePeriodSeconds",
            "containers",
            "volumes",
            "slotsPerWorker",
            "runPolicy",
            "mpiReplicaSpecs",
        ],
    ),
    ("podFailurePolicy", &["rules"]),
    ("rules", &["action", "onExitCodes", "onPodConditions"]),
    ("onExitCodes", &["containerName", "operator", "values"]),
    ("onPodConditions", &["type", "status"]),
    ("template", &["metadata", "spec"]),
    (
        "containers",
        &[
            "name",
            "image",
            "command",
            "args",
            "env",
            "workingDir",
            "resources",
            "volumeMounts",
        ],
    ),
    ("resources", &["requests", "limits"]),
    ("volumeMounts", &["name", "mountPath", "readOnly"]),
    ("volumes", &["name", "persistentVolumeClaim"]),
    ("persistentVolumeClaim", &["claimName", "readOnly"]),
    (
        "runPolicy",
        &["cleanPodPolicy", "backoffLimit", "ttlSecondsAfterFinished"],
    ),
    ("mpiReplicaSpecs", &["Launcher", "Worker"]),
    ("replica", &["replicas", "restartPolicy", "template"]),
];

fn to_json(yaml: &Yaml<'_>) -> Value {
    if let Some(map) = yaml.as_mapping() {
        let members = map.iter().map(|(key, value)| {
            let key = key.as_str().expect("a text as a key");
            (key.to_owned(), to_json(value))
        });
        return members.collect::<serde_json::Map<_, _>>().into();
    }
    if let Some(list) = yaml.as_vec() {
        return list.iter().map(to_json).collect();
    }
    match (yaml.as_str(), yaml.as_integer()) {
        (Some(text), _) => json!(text),
        (_, Some(number)) => json!(number),
        other => panic!("neither a text nor a number: {other:?}"),
    }
}

fn object(name: &str) -> Value {
    let text = template(name);
    let documents = Yaml::load_from_str(&text).expect("YAML");
    assert_eq!(documents.len(), 1);
    to_json(&documents[0])
}

fn check_keys(below: &str, value: &Value) {
    if let Some(list) = value.as_array() {
        for element in list {
            check_keys(below, element);
        }
    }
    let Some(object) = value.as_object() else {
        return;
    };
    let below = match below {
        "Launcher" | "Worker" => "replica",
        other => other,
    };
    let known = KEYS.iter().find(|(name, _)| *name == below);
    for (key, value) in object {
        if let Some((_, known)) = known {
            assert!(known.contains(&key.as_str()), "`{key}` below `{below}`");
            check_keys(key, value);
        }
    }
}

/// The words after `sconce` of a container's command.
fn words_of(container: &Value) -> Vec<String> {
    let words = container["command"].as_array().expect("a command");
    let words = words
        .iter()
        .map(|word| word.as_str().expect("a text").to_owned());
    let mut words = words.skip_while(|word| word != "sconce");
    assert_eq!(words.next().as_deref(), Some("sconce"));
    words.collect()
}

#[test]
fn the_jobs_for_kubernetes_are_made_of_its_keys_and_their_commands_go_on() {
    let job = object("job.yaml");
    check_keys("", &job);
    assert_eq!(
        (&job["apiVersion"], &job["kind"]),
        (&json!("batch/v1"), &json!("Job"))
    );
    // With a policy for failures, pods must not be restarted in place.
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["restartPolicy"], json!("Never"));
    let codes = &job["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"];
    assert_eq!(codes["containerName"], pod["containers"][0]["name"]);
    let mpi = object("mpijob.yaml");
    check_keys("", &mpi);
    assert_eq!(mpi["apiVersion"], json!("kubeflow.org/v2beta1"));
    let replicas = &mpi["spec"]["mpiReplicaSpecs"];
    let launcher = &replicas["Launcher"]["template"]["spec"]["containers"][0];
    let ranks = replicas["Worker"]["replicas"].as_i64().expect("a number")
        * mpi["spec"]["slotsPerWorker"].as_i64().expect("a number");
    assert_eq!(launcher["command"][2], json!(ranks.to_string()));
    for container in [&pod["containers"][0], launcher] {
        let words = words_of(container);
        let place = place(words[0] == "launch");
        place.sconce(&words).expect(0, &[]);
        // As a new pod does it.
        place.sconce(&words).expect(0, &["resumes from"]);
    }
}
