//! Votes: what hooks of any rank have requested is served on all ranks, at the same time and in the same order.
//!
//! Within a training iteration or an evaluation's batch ranks are not at the same place; requests wait for the vote after
//! the last iteration of the update, or after the evaluation's last batch. At all other mount points there is a vote as
//! soon as the hooks have been called.

use sconce_plugin_api::ext::Asked;
use sconce_plugin_api::metadata::HookRanks;
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use super::state::{AgreedStop, Ranks};
use crate::bridge::{BridgeState, StopRequest};
use crate::dispatch::Dispatcher;
use crate::run::{RunError, StopSignal};
use crate::task::Task;
use crate::team::{Purpose, Said, TeamError};

/// What a rank brings to a vote.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Ballot {
    stop: Option<(String, bool, String)>,
    /// Requests of its hooks, in order, each with the hook's name.
    asked: Vec<(Asked, String)>,
    /// Requests from outside, by their numbers.
    outside: Vec<u8>,
    /// Hooks that are off here since the last vote, of those that run on all ranks.
    off: Vec<String>,
}

/// What all ranks serve after a vote.
#[derive(Default)]
pub(in crate::run) struct Votes {
    /// A signal that one of them has got.
    pub(in crate::run) signal: Option<StopSignal>,
    /// Requests of hooks.
    pub(in crate::run) asked: Vec<(Asked, String)>,
    /// Requests from outside.
    pub(in crate::run) outside: Vec<u8>,
}

impl Ballot {
    fn is_empty(&self) -> bool {
        self.stop.is_none()
            && self.asked.is_empty()
            && self.outside.is_empty()
            && self.off.is_empty()
    }
}

impl Ranks {
    /// Hands in what has been requested here, `outside` being the numbers of what was requested from there, and returns what
    /// all ranks serve. Stops, settings and hooks that are off are shared at once.
    pub(in crate::run) fn vote(
        &mut self,
        outside: Vec<u8>,
        signal: Option<StopSignal>,
        update: u64,
        shared: &BridgeState<'_>,
        task: &dyn Task,
        hooks: &mut Dispatcher,
    ) -> Result<Votes, RunError> {
        let settings = Settings::of(shared, task);
        let ballot = Ballot {
            stop: self.new_stop(shared),
            asked: shared.requests.take_asked(),
            outside,
            off: self.newly_off(hooks),
        };
        let bytes = if ballot.is_empty() {
            Vec::new()
        } else {
            postcard::to_allocvec(&ballot).unwrap_or_default()
        };
        let said = Said {
            mark: update,
            flags: signal.map_or(0, |signal| signal as u16),
            number: settings.fingerprint(),
            bytes: &bytes,
        };
        let heard = self.team.hear(Purpose::Vote, said)?;
        let numbers = heard.flags.iter();
        let mut signals = numbers.filter_map(|flags| u8::try_from(*flags).ok());
        let mut votes = Votes {
            signal: signals.find_map(StopSignal::from_number),
            ..Votes::default()
        };
        let mut asked: Vec<(usize, (Asked, String))> = Vec::new();
        // With the names of the ranks where they are.
        let mut off = Vec::new();
        for rank in 0..self.team.size() {
            let bytes = heard.of(rank);
            if bytes.is_empty() {
                continue;
            }
            let name = self.team.name_of(rank);
            let ballot: Ballot = postcard::from_bytes(bytes).map_err(|error| {
                TeamError::Apart(format!("requests of {name} can't be read: {error}"))
            })?;
            if let Some((reason, after_epoch, hook)) = ballot.stop {
                shared.requests.ask_stop(StopRequest {
                    reason,
                    after_epoch,
                    hook,
                });
            }
            for request in ballot.asked {
                // A hook that runs on all ranks asks on each.
                let is_known =
                    (asked.iter()).any(|(other, known)| *other != rank && *known == request);
                if !is_known {
                    asked.push((rank, request));
                }
            }
            votes.outside.extend(ballot.outside);
            off.extend(ballot.off.into_iter().map(|hook| (hook, name.clone())));
        }
        votes.asked = asked.into_iter().map(|(_, asked)| asked).collect();
        self.stop = match shared.requests.stop() {
            None => None,
            Some(stop) if stop.after_epoch => Some(AgreedStop::AfterEpoch),
            Some(_) => Some(AgreedStop::Now),
        };
        self.share_settings(&heard, settings, shared, task)?;
        self.switch_off(off, hooks, shared);
        Ok(votes)
    }

    /// A stop that was requested here and that the others don't know of.
    fn new_stop(&self, shared: &BridgeState<'_>) -> Option<(String, bool, String)> {
        let stop = shared.requests.stop()?;
        let is_new = match self.stop {
            Some(AgreedStop::Now) => false,
            Some(AgreedStop::AfterEpoch) => !stop.after_epoch,
            None => true,
        };
        is_new.then_some((stop.reason, stop.after_epoch, stop.hook))
    }

    /// The hooks on all ranks that are off here, as the others don't know yet.
    fn newly_off(&mut self, hooks: &Dispatcher) -> Vec<String> {
        let hooks = hooks.hooks().iter();
        let new: Vec<String> = hooks
            .filter(|hook| hook.is_disabled() && hook.spec.ranks == HookRanks::All)
            .filter(|hook| !self.off.contains(&hook.spec.name))
            .map(|hook| hook.spec.name.clone())
            .collect();
        self.off.extend(new.iter().cloned());
        new
    }

    /// Switches hooks off that are off on another rank: one that gathers can't do so without its counterparts.
    fn switch_off(
        &mut self,
        off: Vec<(String, String)>,
        hooks: &mut Dispatcher,
        log: &BridgeState<'_>,
    ) {
        for (name, rank) in off {
            if self.off.contains(&name) {
                continue;
            }
            self.off.push(name.clone());
            if hooks.disable(&name) && self.is_first() {
                log.warn(&format!(
                    "`{name}` is off on all ranks from now on, since it has failed on {rank}"
                ));
            }
        }
    }
}

/// Serves requests that concern the requesting hook alone, and leaves the others for a vote.
pub(in crate::run) fn serve_listening(hooks: &mut Dispatcher, shared: &BridgeState<'_>) {
    for (asked, hook) in shared.requests.take_asked() {
        match asked {
            Asked::Listen(listens) => hooks.set_listening(&hook, listens),
            asked => shared.requests.ask(asked, hook),
        }
    }
    shared.requests.keep_pending();
}
