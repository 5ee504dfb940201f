//! What hooks request of a loop, and what it can do of that.

use std::collections::BTreeSet;

use sconce_plugin_api::ext::Request;

/// How a request was served; the error says why it was not.
pub type Served = Result<(), String>;

/// What a loop does for its hooks when they ask for it. Everything is refused unless the loop says that it can do it.
///
/// Requests about the batch and the update in progress, stops and swaps need nothing of it: the host serves them, and the
/// loop sees their effect. What the loop reads from the host itself, such as the learning rate, is said by
/// [`can`](Loop::can) alone.
pub trait Loop {
    /// Whether the loop can do what this request asks.
    ///
    /// # Errors
    ///
    /// If it can't, with the reason: it is shown when a hook that may ask for it is refused at the start.
    fn can(&self, request: Request) -> Served {
        Err(format!("this loop can't serve `{}`", request.name()))
    }

    /// Saves a checkpoint under `tag`, with the states of hooks, which [`LoopHooks::restore`](super::LoopHooks::restore) reads.
    ///
    /// # Errors
    ///
    /// If it can't be written; the hooks are told.
    fn save(&mut self, tag: &str, states: &[u8]) -> Served {
        let _ = (tag, states);
        self.can(Request::SaveCheckpoint)
    }

    /// Loads the parameters of the checkpoint with this tag in place, or of one of its published sets.
    ///
    /// # Errors
    ///
    /// If there is none, or it does not fit.
    fn load_parameters(&mut self, tag: &str, set: Option<&str>) -> Served {
        let _ = (tag, set);
        self.can(Request::LoadParameters)
    }

    /// Deletes the checkpoint with this tag.
    ///
    /// # Errors
    ///
    /// If there is none, or it can't be deleted.
    fn delete(&mut self, tag: &str) -> Served {
        let _ = tag;
        self.can(Request::DeleteCheckpoint)
    }

    /// Gives a checkpoint a second tag.
    ///
    /// # Errors
    ///
    /// If there is none, or it can't be copied.
    fn copy(&mut self, from: &str, to: &str) -> Served {
        let _ = (from, to);
        self.can(Request::CopyCheckpoint)
    }

    /// Makes the loop validate after the batch in progress.
    ///
    /// # Errors
    ///
    /// If it can't.
    fn validate(&mut self) -> Served {
        self.can(Request::Validate)
    }
}

/// A loop that serves nothing but what the host does by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRequests;

impl Loop for NoRequests {}

/// Requests that a loop follows by itself, by what it reads of the host before it acts.
#[derive(Clone, Debug, Default)]
pub struct Follows(BTreeSet<&'static str>);

impl Follows {
    /// Those in `requests`.
    pub fn these(requests: impl IntoIterator<Item = Request>) -> Follows {
        Follows(requests.into_iter().map(Request::name).collect())
    }

    /// Whether this one is among them.
    pub fn has(&self, request: Request) -> bool {
        self.0.contains(request.name())
    }

    /// Adds one.
    pub fn add(&mut self, request: Request) {
        self.0.insert(request.name());
    }
}
