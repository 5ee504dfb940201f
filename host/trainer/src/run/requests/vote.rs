//! Votes: what hooks of any rank have requested is served on all ranks, at the same time and in the same order.
//!
//! Within a training iteration or an evaluation's batch ranks are not at the same place; requests wait for the vote after
//! the last iteration of the update, or after the evaluation's last batch. At all other mount points there is a vote as
//! soon as the hooks have been called.

use sconce_plugin_api::Point;
use sconce_plugin_api::ext::Asked;
use sconce_plugin_api::metadata::HookRanks;
use serde::{Deserialize, Serialize};

use crate::bridge::StopRequest;
use crate::run::failure::Leave;
use crate::run::ranks::settings::Settings;
use crate::run::ranks::state::{AgreedStop, is_within_batch};
use crate::run::{RemoteRequest, RunError, StopSignal, Trainer};
use crate::team::{Purpose, Said, TeamError};

/// What a rank brings to a vote.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Ballot {
    stop: Option<(String, bool, String)>,
    /// Requests of its hooks, in order, each with the hook's name.
    asked: Vec<(Asked, String)>,
    /// Requests from outside.
    outside: Vec<u8>,
    /// Hooks that are off here since the last vote, of those that run on all ranks.
    off: Vec<String>,
}

impl Ballot {
    fn is_empty(&self) -> bool {
        self.stop.is_none()
            && self.asked.is_empty()
            && self.outside.is_empty()
            && self.off.is_empty()
    }
}

/// Requests from outside that all ranks serve.
const SHARED: [RemoteRequest; 3] = [
    RemoteRequest::Checkpoint,
    RemoteRequest::Validate,
    RemoteRequest::Stop,
];

impl Trainer<'_> {
    /// Serves at a mount point what can be served there.
    #[cold]
    pub(in crate::run) fn serve_at(&mut self, point: Point) -> Result<(), Leave> {
        if self.ranks.is_none() {
            return self.serve();
        }
        self.hear_listeners();
        if is_within_batch(point) {
            return Ok(());
        }
        self.vote()
    }

    /// Serves requests that concern the requesting hook alone.
    fn hear_listeners(&mut self) {
        let (listening, others): (Vec<_>, Vec<_>) = (self.shared.requests.take_asked())
            .into_iter()
            .partition(|(asked, _)| matches!(asked, Asked::Listen(_)));
        for (asked, hook) in listening {
            if let Asked::Listen(listens) = asked {
                self.hooks.set_listening(&hook, listens);
            }
        }
        for (asked, hook) in others {
            self.shared.requests.ask(asked, hook);
        }
        self.shared.requests.keep_pending();
    }

    /// Serves on all ranks what was requested on any.
    pub(in crate::run) fn vote(&mut self) -> Result<(), Leave> {
        let settings = Settings::of(self.shared, self.task);
        let (ballot, signal) = self.ballot();
        let Some(ranks) = &mut self.ranks else {
            return Ok(());
        };
        let bytes = if ballot.is_empty() {
            Vec::new()
        } else {
            postcard::to_allocvec(&ballot).unwrap_or_default()
        };
        let said = Said {
            mark: self.position.update,
            flags: signal.map_or(0, |signal| signal as u16),
            number: settings.fingerprint(),
            bytes: &bytes,
        };
        let heard = ranks.team.hear(Purpose::Vote, said);
        let heard = heard.map_err(RunError::from)?;
        let mut signals = heard
            .flags
            .iter()
            .filter_map(|flags| u8::try_from(*flags).ok());
        let signal = signals.find_map(StopSignal::from_number);
        if let Some(signal) = signal {
            self.outside.interrupted_by = Some(signal);
        }
        let mut served: Vec<(usize, (Asked, String))> = Vec::new();
        let mut outside = Vec::new();
        let mut off = Vec::new();
        for rank in 0..ranks.team.size() {
            let bytes = heard.of(rank);
            if bytes.is_empty() {
                continue;
            }
            let ballot: Ballot = postcard::from_bytes(bytes).map_err(|error| {
                let name = ranks.team.name_of(rank);
                let message = format!("requests of {name} can't be read: {error}");
                RunError::from(TeamError::Apart(message))
            })?;
            if let Some((reason, after_epoch, hook)) = ballot.stop {
                self.shared.requests.ask_stop(StopRequest {
                    reason,
                    after_epoch,
                    hook,
                });
            }
            for asked in ballot.asked {
                // A hook that runs on all ranks asks on each.
                let is_known =
                    (served.iter()).any(|(other, known)| *other != rank && *known == asked);
                if !is_known {
                    served.push((rank, asked));
                }
            }
            outside.extend(ballot.outside);
            let name = ranks.team.name_of(rank);
            off.extend(ballot.off.into_iter().map(|hook| (hook, name.clone())));
        }
        ranks.stop = match self.shared.requests.stop() {
            None => None,
            Some(stop) if stop.after_epoch => Some(AgreedStop::AfterEpoch),
            Some(_) => Some(AgreedStop::Now),
        };
        self.switch_off(off);
        self.share_settings(&heard, settings)?;
        let asked = served.into_iter().map(|(_, asked)| asked).collect();
        // There are mount points within what is served, such as that after a save: all ranks vote there too.
        self.shared.requests.keep_pending();
        let served = self.serve_all(asked);
        self.shared.requests.keep_pending();
        served?;
        self.serve_outside(&outside)
    }

    /// What this rank brings, and the signal that it has got.
    fn ballot(&mut self) -> (Ballot, Option<StopSignal>) {
        let requests = &self.shared.requests;
        let stop = requests.stop();
        let is_new = self
            .ranks
            .as_ref()
            .is_some_and(|ranks| match (ranks.stop, &stop) {
                (_, None) | (Some(AgreedStop::Now), _) => false,
                (Some(AgreedStop::AfterEpoch), Some(stop)) => !stop.after_epoch,
                (None, Some(_)) => true,
            });
        let mut outside = Vec::new();
        while let Some(request) = self.outside.remote.next() {
            let place = SHARED.iter().position(|shared| *shared == request);
            match place {
                Some(place) => outside.push(place as u8),
                None if request == RemoteRequest::Pause => self.pause_for_all(),
                None => {}
            }
        }
        let ballot = Ballot {
            stop: stop
                .filter(|_| is_new)
                .map(|stop| (stop.reason, stop.after_epoch, stop.hook)),
            asked: requests.take_asked(),
            outside,
            off: self.newly_off(),
        };
        (ballot, self.outside.interrupt.signal())
    }

    /// The hooks on all ranks that are off here, as the others don't know yet.
    fn newly_off(&mut self) -> Vec<String> {
        let Some(ranks) = &mut self.ranks else {
            return Vec::new();
        };
        let hooks = self.hooks.hooks().iter();
        let off = hooks.filter(|hook| hook.is_disabled() && hook.spec.ranks == HookRanks::All);
        let new = off.filter(|hook| !ranks.off.contains(&hook.spec.name));
        let new: Vec<String> = new.map(|hook| hook.spec.name.clone()).collect();
        ranks.off.extend(new.iter().cloned());
        new
    }

    /// Switches hooks off that are off on another rank: one that gathers can't do so without its counterparts.
    fn switch_off(&mut self, hooks: Vec<(String, String)>) {
        for (name, rank) in hooks {
            let Some(ranks) = &mut self.ranks else {
                return;
            };
            if ranks.off.contains(&name) {
                continue;
            }
            ranks.off.push(name.clone());
            let is_first = ranks.team.is_first();
            if self.hooks.disable(&name) && is_first {
                self.shared.warn(&format!(
                    "`{name}` is off on all ranks from now on, since it has failed on {rank}"
                ));
            }
        }
    }

    /// Waits until a pause ends; the other ranks wait for this one.
    fn pause_for_all(&mut self) {
        while self.outside.interrupt.signal().is_none() {
            match self.outside.remote.waiting().first() {
                None | Some(RemoteRequest::Pause) => self.pause(),
                Some(_) => return,
            }
        }
    }

    fn serve_outside(&mut self, outside: &[u8]) -> Result<(), Leave> {
        for request in outside {
            match SHARED.get(usize::from(*request)) {
                Some(RemoteRequest::Checkpoint) => self.save_by_key()?,
                Some(RemoteRequest::Validate) => self.validate_by_key()?,
                Some(RemoteRequest::Stop) => self.stop_by_key(),
                _ => {}
            }
        }
        if self.shared.requests.stops_now()
            && let Some(ranks) = &mut self.ranks
        {
            ranks.stop = Some(AgreedStop::Now);
        }
        Ok(())
    }
}
