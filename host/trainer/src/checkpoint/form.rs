//! Serialisation of checkpoints to the bytes of their files, and back.
//!
//! Tensors go to `parameters.safetensors` (the model's, by their own names, or the averages that were measured
//! in their place; the trained parameters then go to `trained.safetensors`) and `training.safetensors` (all
//! others, under `optimizer/`, `accumulated/`, `published/`, `extra/` and, for states that are not JSON,
//! `hooks/`). Everything else is JSON in `state.json`, `hooks.json` and `manifest.json`.

use std::borrow::Cow;

use candle_core::{Device, Tensor};
use sconce_plugin_api::CheckpointRef;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bytes::bytes_of;
use super::layout::{HOOKS, MANIFEST, PARAMETERS, STATE, TRAINED_FILE, TRAINING, parsed, tensors};
use super::section::Section;
use super::{Checkpoint, CheckpointError, CheckpointHeader, HookRecord, PreprocessingFiles, sets};

/// Serialised files of a checkpoint; any thread can write them.
#[derive(Debug)]
pub struct Files {
    /// Tag of the checkpoint.
    pub tag: String,
    /// Host that writes it.
    pub(super) host: String,
    /// Version of its format.
    pub(super) format: u32,
    /// Names and contents, in the order of writing.
    pub(super) all: Vec<(&'static str, Vec<u8>)>,
    /// Whether a run can resume from it.
    pub(super) is_complete: bool,
    /// Whether such a run has the bits of one that was never stopped.
    pub(super) is_exact: bool,
    /// If not, the checkpoint of this run that a run resumes from instead, unless it is named.
    pub(super) exact_before: Option<String>,
}

impl Files {
    /// Serialises a checkpoint, copying everything.
    pub fn of(checkpoint: &Checkpoint) -> Result<Files, CheckpointError> {
        let CheckpointHeader { tag, host, .. } = &checkpoint.header;
        let failed = |reason: String| CheckpointError::Form {
            tag: tag.clone(),
            reason,
        };
        let measured = sets::measured(checkpoint);
        let is_elsewhere = |name: &str| {
            let is_in_set = |measured: &sets::Measured<'_>| measured.published.contains(name);
            name.starts_with(Section::Parameters.prefix())
                || measured.as_ref().is_some_and(is_in_set)
        };
        let mut training: Vec<(String, Tensor)> = (checkpoint.tensors.iter())
            .filter(|(name, _)| !is_elsewhere(name))
            .cloned()
            .collect();
        let mut hooks = Vec::new();
        for hook in &checkpoint.hooks {
            let (written, bytes) = StoredHook::of(hook);
            hooks.push(written);
            if let Some(bytes) = bytes {
                let tensor = Tensor::from_slice(&bytes, bytes.len(), &Device::Cpu);
                let tensor = tensor.map_err(|error| failed(error.to_string()))?;
                training.push((Section::Hooks.full_name(&hook.name), tensor));
            }
        }
        let tensors = |tensors: Vec<(&str, &Tensor)>| {
            let named = tensors.into_iter();
            let views = named.map(|(name, tensor)| (name, bytes_of(tensor)));
            safetensors::serialize(views, None).map_err(|error| failed(error.to_string()))
        };
        let training = training
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor));
        let trained: Vec<_> = checkpoint.under(Section::Parameters).collect();
        let mut all = match &measured {
            None => vec![(PARAMETERS, tensors(trained)?)],
            Some(measured) => vec![
                (PARAMETERS, tensors(measured.parameters.clone())?),
                (TRAINED_FILE, tensors(trained)?),
            ],
        };
        all.extend([
            (TRAINING, tensors(training.collect())?),
            (STATE, json(&checkpoint.header).map_err(failed)?),
            (HOOKS, json(&hooks).map_err(failed)?),
            (MANIFEST, json(&checkpoint.manifest).map_err(failed)?),
        ]);
        all.extend(checkpoint.preprocessing.iter().cloned());
        Ok(Files {
            tag: tag.clone(),
            host: host.clone(),
            format: checkpoint.header.format,
            is_complete: true,
            is_exact: checkpoint.header.exact,
            exact_before: None,
            all,
        })
    }

    /// Drops the files that only training needs: optimizer, hooks, and what hooks published.
    pub fn parameters_alone(mut self) -> Files {
        self.all
            .retain(|(name, _)| ![TRAINING, HOOKS].contains(name));
        self.is_complete = false;
        self
    }

    /// Says which checkpoint of this run was saved before, and is exact.
    pub fn after(self, exact_before: Option<String>) -> Files {
        Files {
            exact_before,
            ..self
        }
    }

    /// Total size of the files in bytes.
    pub fn bytes(&self) -> u64 {
        self.all.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Parses a checkpoint; `read` returns the bytes of a file, and `damaged` makes the error for
    /// one.
    pub(super) fn parse(
        read: impl Fn(&str) -> Result<Vec<u8>, CheckpointError>,
        damaged: impl Fn(&str, String) -> CheckpointError,
    ) -> Result<Checkpoint, CheckpointError> {
        let tensors = |name: &str| tensors(&read(name)?).map_err(|reason| damaged(name, reason));
        let header: CheckpointHeader =
            parsed(&read(STATE)?).map_err(|reason| damaged(STATE, reason))?;
        let own = |(name, tensor): (String, Tensor)| (Section::Parameters.full_name(&name), tensor);
        let mut all: Vec<(String, Tensor)> = match &header.measured {
            None => tensors(PARAMETERS)?.into_iter().map(own).collect(),
            Some(set) => {
                let mut all: Vec<_> = tensors(TRAINED_FILE)?.into_iter().map(own).collect();
                all.extend(sets::published(set, &header, tensors(PARAMETERS)?));
                all
            }
        };
        let mut hook_bytes = Vec::new();
        for (name, tensor) in tensors(TRAINING)? {
            match Section::Hooks.own_name(&name) {
                Some(hook) => hook_bytes.push((hook.to_owned(), tensor)),
                None => all.push((name, tensor)),
            }
        }
        let written: Vec<StoredHook> =
            parsed(&read(HOOKS)?).map_err(|reason| damaged(HOOKS, reason))?;
        let mut hooks = Vec::new();
        for written in written {
            let bytes = hook_bytes.iter().find(|(name, _)| *name == written.name);
            let bytes = bytes.map(|(_, tensor)| tensor.to_vec1());
            let bytes = bytes.transpose();
            let bytes = bytes.map_err(|error| damaged(TRAINING, error.to_string()))?;
            hooks.push(written.record(bytes));
        }
        let header: CheckpointHeader =
            parsed(&read(STATE)?).map_err(|reason| damaged(STATE, reason))?;
        let manifest = parsed(&read(MANIFEST)?).map_err(|reason| damaged(MANIFEST, reason))?;
        header
            .check(&manifest)
            .map_err(|reason| damaged(STATE, reason))?;
        Ok(Checkpoint {
            header,
            hooks,
            manifest,
            preprocessing: PreprocessingFiles::default(),
            tensors: all,
        })
    }
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| error.to_string())?;
    text.push(b'\n');
    Ok(text)
}

/// A hook as `hooks.json` stores it.
#[derive(Serialize, Deserialize)]
struct StoredHook {
    name: String,
    kind: String,
    plugin: String,
    version: String,
    sha256: String,
    #[serde(default, skip_serializing_if = "is_false")]
    disabled: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    absent: bool,
    /// A state that is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<Box<RawValue>>,
    /// Size of any other state, whose bytes are in `training.safetensors`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state_bytes: Option<usize>,
    /// Number of ranks whose states are in those bytes, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ranks: Option<usize>,
    /// The checkpoints that the state refers to: what must be kept is found without reading states.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refers: Vec<CheckpointRef>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl StoredHook {
    /// Returns a hook's entry, and the bytes of its state that must be stored elsewhere.
    fn of(hook: &HookRecord) -> (StoredHook, Option<Cow<'_, [u8]>>) {
        let is_of_ranks = !hook.of_ranks.is_empty();
        let state = if is_of_ranks {
            postcard::to_allocvec(&hook.of_ranks).ok().map(Cow::Owned)
        } else {
            hook.state.as_deref().map(Cow::Borrowed)
        };
        let json = state.as_deref().filter(|_| !is_of_ranks).and_then(as_json);
        let bytes = state.filter(|_| json.is_none());
        let written = StoredHook {
            name: hook.name.clone(),
            kind: hook.kind.clone(),
            plugin: hook.plugin.clone(),
            version: hook.version.clone(),
            sha256: hook.sha256.clone(),
            disabled: hook.disabled,
            absent: hook.absent,
            state: json,
            state_bytes: bytes.as_ref().map(|bytes| bytes.len()),
            ranks: is_of_ranks.then_some(hook.of_ranks.len()),
            refers: hook.references(),
        };
        (written, bytes.filter(|bytes| !bytes.is_empty()))
    }

    fn record(self, bytes: Option<Vec<u8>>) -> HookRecord {
        let of_ranks: Vec<Option<Vec<u8>>> = match (self.ranks, &bytes) {
            (Some(_), Some(bytes)) => postcard::from_bytes(bytes).unwrap_or_default(),
            _ => Vec::new(),
        };
        let first = of_ranks.first().cloned().flatten();
        let state = match (self.state, self.state_bytes) {
            _ if self.ranks.is_some() => first,
            (Some(json), _) => Some(json.get().as_bytes().to_vec()),
            (None, Some(_)) => Some(bytes.unwrap_or_default()),
            (None, None) => None,
        };
        HookRecord {
            name: self.name,
            kind: self.kind,
            plugin: self.plugin,
            version: self.version,
            sha256: self.sha256,
            disabled: self.disabled,
            absent: self.absent,
            state,
            of_ranks,
        }
    }
}

/// Returns a state as JSON if it can be read back byte for byte.
fn as_json(state: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(state).ok()?;
    // A null would be read as a missing state; surrounding whitespace would be lost.
    if text == "null" || text.trim() != text {
        return None;
    }
    RawValue::from_string(text.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_byte_for_byte_whatever_they_are() {
        for state in [
            Some(&br#"{"best": 0.10, "waited":  3}"#[..]),
            Some(b"17"),
            Some(b"null"),
            Some(b" 1\n"),
            Some(b"\xff\x00"),
            Some(b""),
            None,
        ] {
            let hook = HookRecord {
                name: "h".to_owned(),
                state: state.map(<[u8]>::to_vec),
                ..HookRecord::default()
            };
            let (written, bytes) = StoredHook::of(&hook);
            let text = json(&written).expect("JSON");
            let back: StoredHook = parsed(&text).expect("it can be read");
            assert_eq!(back.record(bytes.map(Cow::into_owned)), hook);
        }
    }

    #[test]
    fn states_of_several_ranks_come_back() {
        let hook = HookRecord {
            name: "h".to_owned(),
            state: Some(b"1".to_vec()),
            of_ranks: vec![Some(b"1".to_vec()), None, Some(b"\xff".to_vec())],
            ..HookRecord::default()
        };
        let (written, bytes) = StoredHook::of(&hook);
        let text = json(&written).expect("JSON");
        let back: StoredHook = parsed(&text).expect("it can be read");
        let back = back.record(bytes.map(Cow::into_owned));
        assert_eq!(back, hook);
        let states = [0, 1, 2, 3].map(|rank| back.state_of(rank));
        assert_eq!(states, [Some(&b"1"[..]), None, Some(b"\xff"), Some(b"1")]);
    }
}
