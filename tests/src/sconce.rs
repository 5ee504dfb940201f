//! Runs of the binary in a temporary directory with a manifest and plugins.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::build::{artifacts, library_name};

/// A test's temporary directory, deleted on drop.
pub struct Workplace {
    directory: TempDir,
}

/// No run of a test takes nearly as long, on any machine: it hangs, and what it printed so far says where.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// As [`Command::output`], of a process that is killed if it hangs.
fn output_of(mut command: Command) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    let (ends, ended) = mpsc::channel();
    let stdout = reader(child.stdout.take(), ends.clone());
    let stderr = reader(child.stderr.take(), ends);
    let mut is_killed = false;
    for _ in 0..2 {
        if ended.recv_timeout(LONGEST).is_err() {
            is_killed = true;
            child.kill().expect("a process of ours can be killed");
        }
    }
    let status = child.wait().expect("a process of ours can be waited for");
    let read = |thread: JoinHandle<Vec<u8>>| thread.join().expect("it reads");
    let (stdout, mut stderr) = (read(stdout), read(stderr));
    if is_killed {
        let message = format!("\nkilled after {LONGEST:?}: {command:?}\n");
        stderr.extend_from_slice(message.as_bytes());
    }
    Output {
        status,
        stdout,
        stderr,
    }
}

/// A thread that reads a pipe, and says when it is at its end.
fn reader<R>(pipe: Option<R>, ended: mpsc::Sender<()>) -> JoinHandle<Vec<u8>>
where
    R: Read + Send + 'static,
{
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        }
        // The test may have given it up.
        let _ = ended.send(());
        bytes
    })
}

/// Result of running the binary.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; -1 if a signal ended the process.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Workplace {
    /// Creates a directory with the libraries of `plugins` (package names) in `plugins/`.
    ///
    /// # Panics
    ///
    /// If the directory can't be created.
    pub fn new(plugins: &[&str]) -> Workplace {
        let place = Workplace {
            directory: tempfile::tempdir().expect("a temporary directory can be made"),
        };
        fs::create_dir(place.path("plugins")).expect("a directory can be made");
        for package in plugins {
            place.add_plugin(package, "plugins");
        }
        place
    }

    /// Copies a package's library into a directory below this one; returns its path.
    ///
    /// # Panics
    ///
    /// If it can't be copied.
    pub fn add_plugin(&self, package: &str, directory: &str) -> PathBuf {
        let directory = self.path(directory);
        fs::create_dir_all(&directory).expect("a directory can be made");
        let target = directory.join(library_name(package));
        let source = artifacts().plugin(package);
        fs::hard_link(&source, &target)
            .or_else(|_| fs::copy(&source, &target).map(drop))
            .unwrap_or_else(|error| panic!("can't copy {}: {error}", source.display()));
        target
    }

    /// Copies `sconce` itself into a directory below this one; returns its path.
    ///
    /// By another process: a process that a thread of this one starts at that moment would inherit a file that is open for
    /// writing, and what is open for writing can't be executed (`ETXTBSY`).
    ///
    /// # Panics
    ///
    /// If it can't be copied.
    pub fn add_sconce(&self, directory: &str) -> PathBuf {
        let source = artifacts().sconce();
        let directory = self.path(directory);
        fs::create_dir_all(&directory).expect("a directory can be made");
        let target = directory.join(source.file_name().expect("a program has a name"));
        if cfg!(unix) {
            let copied = Command::new("cp").arg(&source).arg(&target).status();
            assert!(
                copied.is_ok_and(|status| status.success()),
                "can't copy {}",
                source.display()
            );
        } else {
            fs::copy(&source, &target).expect("a program can be copied");
        }
        target
    }

    /// Writes a script of the shell that can be executed; as [`add_sconce`](Workplace::add_sconce), by another process.
    ///
    /// # Panics
    ///
    /// If it can't be written.
    #[cfg(unix)]
    pub fn write_program(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("a file is in a directory"))
            .expect("a directory can be made");
        let write = "printf '#!/bin/sh\n%s\n' \"$2\" >\"$1\" && chmod 755 \"$1\"";
        let written = Command::new("sh")
            .args(["-c", write, "sh"])
            .arg(&path)
            .arg(text)
            .status();
        assert!(
            written.is_ok_and(|status| status.success()),
            "can't write {}",
            path.display()
        );
        path
    }

    /// Path of a file below the directory.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    /// Writes `manifest.json`.
    ///
    /// # Panics
    ///
    /// If it can't be written.
    pub fn write(&self, manifest: &Value) -> PathBuf {
        let text = serde_json::to_string_pretty(manifest).expect("a value is JSON");
        self.write_text("manifest.json", &text)
    }

    /// Writes a file.
    ///
    /// # Panics
    ///
    /// If it can't be written.
    pub fn write_text(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file can be written");
        path
    }

    /// Reads a file below the directory.
    ///
    /// # Panics
    ///
    /// If the file can't be read.
    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("can't read {}: {error}", path.display()))
    }

    /// Runs `sconce` with these arguments in the directory.
    ///
    /// # Panics
    ///
    /// If the binary can't be started.
    pub fn sconce<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Finished {
        self.sconce_in(arguments, &[])
    }

    /// As [`sconce`](Workplace::sconce), with additional environment variables.
    ///
    /// # Panics
    ///
    /// If the binary can't be started.
    pub fn sconce_in<S: AsRef<std::ffi::OsStr>>(
        &self,
        arguments: &[S],
        environment: &[(&str, &str)],
    ) -> Finished {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied());
        Finished::from(output_of(command))
    }

    /// The binary with these arguments in the directory, not started yet.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(artifacts().sconce());
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_remove("SCONCE_PLUGIN_PATH")
            // Cargo sets it for what it runs.
            .env_remove("LD_LIBRARY_PATH")
            // Keeps out the plugins installed by the user who runs the tests.
            .env("XDG_DATA_HOME", self.directory.path().join("data-home"))
            .env("XDG_CACHE_HOME", self.directory.path().join("cache-home"))
            .env("XDG_STATE_HOME", self.directory.path().join("state-home"))
            // And the keys that the user trusts.
            .env("XDG_CONFIG_HOME", self.directory.path().join("config-home"))
            .env_remove("SCONCE_TRUST")
            .env("NO_COLOR", "1");
        command
    }

    /// Writes the manifest and runs `sconce run` on it.
    pub fn run(&self, manifest: &Value) -> Finished {
        self.write(manifest);
        self.sconce(&["run", "manifest.json"])
    }

    /// The lines of a JSON-lines file in the run's output directory.
    ///
    /// # Panics
    ///
    /// If the file does not exist or has a line that is not JSON.
    pub fn records(&self, file: &str) -> Vec<Value> {
        let text = self.read(&format!("out/{file}"));
        text.lines()
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect()
    }

    /// Contents of a checkpoint of the run, as shape and bytes, by name: tensors under
    /// `parameters/`, `optimizer/`, `accumulated/`, `published/` and `extra/`, states under
    /// `hooks/`.
    ///
    /// # Panics
    ///
    /// If it can't be read, or has no parameters.
    pub fn checkpoint(&self, tag: &str) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
        self.checkpoint_at(&format!("out/checkpoints/{tag}"))
    }

    /// Contents of the checkpoint in a directory below this one.
    ///
    /// # Panics
    ///
    /// If it can't be read, or has no parameters.
    pub fn checkpoint_at(&self, directory: &str) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
        let directory = self.path(directory);
        let read = |file: &str| {
            let path = directory.join(file);
            fs::read(&path).unwrap_or_else(|error| panic!("can't read {}: {error}", path.display()))
        };
        let mut all = BTreeMap::new();
        let state: Value = serde_json::from_slice(&read("state.json")).expect("JSON");
        // Measured averages are stored in place of the parameters.
        let measured = state["measured"].as_str();
        let measured = measured.map(|set| format!("published/{set}/"));
        let files = match &measured {
            None => vec![("parameters.safetensors", "parameters/")],
            Some(set) => vec![
                ("parameters.safetensors", set.as_str()),
                ("trained.safetensors", "parameters/"),
            ],
        };
        for (file, prefix) in [files, vec![("training.safetensors", "")]].concat() {
            let bytes = read(file);
            let file = safetensors::SafeTensors::deserialize(&bytes).expect("it is a checkpoint");
            for (name, view) in file.tensors() {
                let content = (view.shape().to_vec(), view.data().to_vec());
                all.insert(format!("{prefix}{name}"), content);
            }
        }
        // Tests compare all that is here: nothing must not equal nothing.
        let has_parameters = all.keys().any(|name| name.starts_with("parameters/"));
        assert!(has_parameters, "no parameters in {}", directory.display());
        let hooks: Value = serde_json::from_slice(&read("hooks.json")).expect("JSON");
        for hook in hooks.as_array().into_iter().flatten() {
            let name = hook["name"].as_str().unwrap_or_default();
            if hook["state_bytes"] == 0 {
                all.insert(format!("hooks/{name}"), (vec![0], Vec::new()));
            } else if let Some(state) = hook.get("state") {
                let state = state.to_string().into_bytes();
                all.insert(format!("hooks/{name}"), (vec![state.len()], state));
            }
        }
        all
    }

    /// The directory's path.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Finished {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Finished {
    /// Asserts the exit code and that standard error contains each of `words`.
    ///
    /// # Panics
    ///
    /// If either fails; shows what was printed.
    #[track_caller]
    pub fn expect(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "exit code\n{}", self.stderr);
        for word in words {
            assert!(
                self.stderr.contains(word),
                "no {word:?} in:\n{}",
                self.stderr
            );
        }
        self
    }

    /// Asserts that the manifest's only hook was refused with these words: by its schema, with the exit code 2 and the
    /// place in its configuration, or by itself when it was created, with 3 and the place of its entry.
    ///
    /// # Panics
    ///
    /// If it was not; shows what was printed.
    #[track_caller]
    pub fn expect_refused(self, words: &str) -> Self {
        let (code, place) = if self.stderr.contains("failed when it was created") {
            (3, "at hooks[0]")
        } else {
            (2, "at hooks[0].config")
        };
        self.expect(code, &[words, place])
    }
}
