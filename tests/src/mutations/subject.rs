//! Readers of outside input, to be fed damaged bytes.

use std::fs;
use std::path::{Path, PathBuf};

use sconce::data::{self, DataConfig};
use sconce::manifest::{self, TaskSource};
use sconce::plugin::inspect;
use sconce::{checkpoint, weights};
use serde_json::{Value, json};

use super::states::States;
use crate::{Workplace, artifacts, edit, tiny, workspace};

/// A kind of outside input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A manifest's text.
    Manifest,
    /// A plugin's file.
    Plugin,
    /// A plugin's file, damaged within its metadata.
    Metadata,
    /// A checkpoint's directory; the first byte of an input selects the file that the rest
    /// replaces.
    Checkpoint,
    /// IDX files; the first byte selects images or labels.
    Idx,
    /// A CSV table.
    Csv,
    /// A file of weights.
    Safetensors,
    /// The saved state of a standard hook; the first byte selects the hook.
    State,
    /// The counters of a checkpoint, with matching checksums.
    Counters,
}

impl Subject {
    /// All subjects.
    pub const ALL: [Subject; 9] = [
        Subject::Manifest,
        Subject::Plugin,
        Subject::Metadata,
        Subject::Checkpoint,
        Subject::Idx,
        Subject::Csv,
        Subject::Safetensors,
        Subject::State,
        Subject::Counters,
    ];

    /// The subject's name.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Manifest => "manifest",
            Subject::Plugin => "plugin",
            Subject::Metadata => "metadata",
            Subject::Checkpoint => "checkpoint",
            Subject::Idx => "idx",
            Subject::Csv => "csv",
            Subject::Safetensors => "safetensors",
            Subject::State => "state",
            Subject::Counters => "counters",
        }
    }
}

/// A subject with what it needs: a directory for files, and intact inputs to start from.
pub struct Bench {
    subject: Subject,
    place: Workplace,
    whole: Vec<Vec<u8>>,
    /// Files of a checkpoint.
    files: Vec<PathBuf>,
    /// Runs resumed from damaged states or counters.
    states: Option<States>,
}

/// The plugin whose file and metadata are damaged.
const PLUGIN: &str = "sconce-plugin-control";

/// Size of the part of a plugin's file that is damaged as its metadata, in bytes.
const AROUND: usize = 2048;

impl Bench {
    /// Creates the intact inputs.
    ///
    /// # Panics
    ///
    /// If they can't be created.
    pub fn new(subject: Subject) -> Bench {
        let place = Workplace::new(&[
            "sconce-fixture-faults",
            "sconce-fixture-giver",
            "sconce-plugin-csv",
        ]);
        let mut files = Vec::new();
        let mut states = None;
        let whole = match subject {
            Subject::Manifest => manifests(),
            Subject::Plugin => vec![plugin()],
            Subject::Metadata => vec![around_metadata(&plugin()).1],
            Subject::Checkpoint => {
                files = checkpoint_files(&place);
                let file = |(index, path): (usize, &PathBuf)| {
                    let mut input = vec![index as u8];
                    input.extend(fs::read(path).expect("a file"));
                    input
                };
                files.iter().enumerate().map(file).collect()
            }
            Subject::Idx => {
                let images: Vec<u8> = (0..10 * 16).map(|pixel| (pixel * 7) as u8).collect();
                vec![
                    [
                        &[0, 0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 4, 0, 0, 0, 4],
                        &images[..],
                    ]
                    .concat(),
                    vec![1, 0, 0, 8, 1, 0, 0, 0, 10, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4],
                ]
            }
            Subject::Csv => {
                let line = |row: usize| {
                    let (colour, kind) =
                        (["red", "\"dark, blue\"", ""][row % 3], ["a", "b"][row % 2]);
                    format!("{}.5,{colour},{},{kind}", row * 3, row % 4)
                };
                let lines = (0..30).map(line);
                let head = std::iter::once("size,colour,when,kind".to_owned());
                let table = head.chain(lines).collect::<Vec<_>>().join("\n");
                vec![table.into_bytes()]
            }
            Subject::Safetensors => vec![parameters(&place)],
            Subject::State => states.insert(States::of_hooks()).originals(),
            Subject::Counters => vec![states.insert(States::of_counters()).counters()],
        };
        Bench {
            subject,
            place,
            whole,
            files,
            states,
        }
    }

    /// The intact inputs.
    pub fn originals(&self) -> &[Vec<u8>] {
        &self.whole
    }

    /// Gives the host an input; returns whether it accepted it.
    ///
    /// # Panics
    ///
    /// If the host panics, or accepts what it must not.
    pub fn take(&self, input: &[u8]) -> bool {
        match self.subject {
            Subject::Manifest => {
                let path = self.write("input.json", input);
                manifest::load(&path, &manifest::Overlay::default(), TaskSource::Manifest).is_ok()
            }
            Subject::Plugin => self.take_plugin(input),
            Subject::Metadata => {
                let whole = plugin();
                let (start, original) = around_metadata(&whole);
                let end = start + original.len();
                self.take_plugin(&[&whole[..start], input, &whole[end..]].concat())
            }
            Subject::Checkpoint => self.take_checkpoint(input),
            Subject::Idx => {
                let (which, bytes) = input.split_first().unwrap_or((&0, &[]));
                let mut paths = [0, 1].map(|index| {
                    let name = ["images", "labels"][index];
                    self.write(name, &self.whole[index][1..])
                });
                let which = usize::from(*which) % 2;
                paths[which] = self.write("damaged", bytes);
                let [images, labels] = paths;
                self.take_data(
                    json!({"kind": "idx", "images": images, "labels": labels, "val": {"count": 2}}),
                )
            }
            Subject::Csv => {
                let file = self.write("table.csv", input);
                self.take_data(json!({"kind": "csv", "file": file, "target": "kind"}))
            }
            Subject::Safetensors => {
                let path = self.write("weights.safetensors", input);
                weights::read(&path).is_ok()
            }
            Subject::State => self.states().take_state(input),
            Subject::Counters => self.states().take_counters(input),
        }
    }

    fn states(&self) -> &States {
        self.states.as_ref().expect("the subject has runs")
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.place.path(name);
        fs::write(&path, bytes).expect("a file can be written");
        path
    }

    /// Plugins that pass the checks in this process go to the binary, which first tries to open
    /// them in a child process.
    fn take_plugin(&self, bytes: &[u8]) -> bool {
        let path = self.write("plugins/damaged.so", bytes);
        if inspect::inspect(&path).is_err() {
            return false;
        }
        let hooks = json!([{"hook": "early-stopping", "config": {"monitor": "loss"}}]);
        let manifest = edit(tiny(), "/hooks", hooks);
        self.place
            .write(&edit(manifest, "/limits", json!({"load": 5})));
        let finished = self.place.sconce(&["check", "manifest.json"]);
        assert!(
            [0, 2, 3].contains(&finished.code),
            "the binary ended with {}\n{}",
            finished.code,
            finished.stderr
        );
        finished.code == 0
    }

    fn take_data(&self, config: Value) -> bool {
        let config: DataConfig = serde_json::from_value(config).expect("a config");
        data::load(&config, &self.place.path(""), 1).is_ok()
    }

    /// A damaged file must never be accepted; a damaged index, which has the other files'
    /// checksums, only if it has the same meaning.
    fn take_checkpoint(&self, input: &[u8]) -> bool {
        let (which, bytes) = input.split_first().unwrap_or((&0, &[]));
        let file = &self.files[usize::from(*which) % self.files.len()];
        let whole = fs::read(file).expect("a file");
        let directory = file.parent().expect("a directory");
        let content = |checkpoint: checkpoint::Checkpoint| format!("{checkpoint:?}");
        let expected = checkpoint::read(directory)
            .map(content)
            .expect("a whole one");
        fs::write(file, bytes).expect("a file can be written");
        let read = checkpoint::read(directory);
        fs::write(file, &whole).expect("a file can be written");
        let Ok(read) = read else { return false };
        let is_index = file.ends_with("index.json");
        assert!(
            whole == bytes || is_index && content(read) == expected,
            "a damaged {} was accepted",
            file.display()
        );
        true
    }
}

fn manifests() -> Vec<Vec<u8>> {
    let examples = fs::read_dir(workspace().join("examples")).expect("examples");
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("an entry").path().join("run.json");
        fs::read(path).ok()
    };
    examples.filter_map(file).collect()
}

fn plugin() -> Vec<u8> {
    fs::read(artifacts().plugin(PLUGIN)).expect("a plugin")
}

/// Offset and bytes of the part of a plugin's file around its metadata.
fn around_metadata(plugin: &[u8]) -> (usize, Vec<u8>) {
    let name = format!("\"{PLUGIN}\"");
    let found = plugin
        .windows(name.len())
        .position(|window| window == name.as_bytes());
    let start = found.expect("it says its name").saturating_sub(AROUND / 4);
    let end = (start + AROUND).min(plugin.len());
    (start, plugin[start..end].to_vec())
}

/// Files of a checkpoint with all kinds of content.
fn checkpoint_files(place: &Workplace) -> Vec<PathBuf> {
    let save =
        json!({"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "each"});
    let hooks = json!([
        "counter",
        {"hook": "giver", "config": {"keep": "run"}},
        "csv",
        {"hook": "asker", "config": save}
    ]);
    let optimizer = json!({"kind": "adamw", "learning_rate": 0.01});
    let manifest = edit(edit(tiny(), "/hooks", hooks), "/optimizer", optimizer);
    place.run(&manifest).expect(0, &[]);
    let entries = fs::read_dir(place.path("out/checkpoints/each")).expect("a checkpoint");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    files
}

fn parameters(place: &Workplace) -> Vec<u8> {
    let files = checkpoint_files(place);
    let is_parameters =
        |path: &&PathBuf| path.file_name() == Some("parameters.safetensors".as_ref());
    let file: &Path = files.iter().find(is_parameters).expect("parameters");
    fs::read(file).expect("a file")
}
