//! Loads a hook again after every iteration of a test's run, with its own library.

use std::path::Path;

use crate::bridge::BridgeState;
use crate::dispatch::HookSpec;
use crate::manifest::ReloadAt;
use crate::plugin::blueprint::HookBlueprint;
use crate::plugin::new_library::NewLibrary;
use crate::run::{ReloadResult, ReloadService, Reloader, Reloads};

/// The service of a run whose hooks are loaded again every N iterations.
pub(super) fn every(iterations: u64) -> ReloadService<'static> {
    ReloadService {
        waiting: Reloads::default(),
        reloader: &Nothing,
        at: ReloadAt::Iteration,
        every: Some(iterations),
    }
}

/// There are no new libraries in a test.
struct Nothing;

impl Reloader for Nothing {
    fn prepare(
        &self,
        _library: &NewLibrary,
        _old: &HookBlueprint,
        _spec: &HookSpec,
        _state: &[u8],
        _shared: &BridgeState<'_>,
    ) -> Result<HookBlueprint, String> {
        Err("a test has no new libraries".to_owned())
    }

    fn ask(&self) {}

    fn answer(&self, _request: &str, _results: &[ReloadResult]) {}

    fn keep(&self, _sha256: &str, _file: &Path) {}

    fn keep_script(&self, _sha256: &str, _code: &[u8]) {}
}
