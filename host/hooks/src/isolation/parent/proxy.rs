//! Stands in for a hook in another process: its functions send orders, and answer what the child asks meanwhile.

use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use sconce_plugin_api::abi::{SetupAbi, Status, ViewAbi};
use sconce_plugin_api::ext::{HostCall, Level, Log, Ranks, Refusal, Threads};
use sconce_plugin_api::{Phase, Point};

use super::super::ending::Ending;
use super::super::message::{Ask, Call, Create, Order, Posted, Reply, Word, append};
use super::borrowed::BorrowedTensors;
use super::crash_report::{self, Scene};
use super::payload::payload;
use super::prefetched::Prefetched;
use super::process::HookProcess;
use super::serve::Server;
use crate::bridge::{BridgeState, begin_transaction, commit, roll_back, state_of};
use crate::plugin::blueprint::HookFacts;
use crate::plugin::entry_error::{ENDED, EntryError};
use crate::plugin::instance::HookApart;

/// A hook in another process.
#[derive(Debug)]
pub(super) struct Proxy {
    process: Option<HookProcess>,
    facts: HookFacts,
    is_sandboxed: bool,
    limit: Option<Duration>,
    prefetched: Prefetched,
    borrowed: BorrowedTensors,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// The state that was saved last.
    state: Option<Vec<u8>>,
    /// Whether other ranks have seen something of the call in which the process has ended.
    was_seen_by_others: bool,
}

/// The result of an order.
pub(super) struct Returned {
    pub(super) status: u32,
    pub(super) message: String,
    pub(super) place: String,
    pub(super) bytes: Vec<u8>,
}

impl Proxy {
    /// Whether its state is kept for a restart.
    pub(super) fn keeps_state(&self) -> bool {
        self.facts.keeps_state
    }

    /// Keeps a state for a restart.
    pub(super) fn keep_state(&mut self, state: &[u8]) {
        self.state = Some(state.to_vec());
    }

    /// Stands in for the hook that will be created in this process.
    pub(super) fn new(
        process: HookProcess,
        is_sandboxed: bool,
        limit: Option<Duration>,
        facts: HookFacts,
    ) -> Proxy {
        Proxy {
            process: Some(process),
            facts,
            is_sandboxed,
            limit,
            prefetched: Prefetched::default(),
            borrowed: BorrowedTensors::default(),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            state: None,
            was_seen_by_others: false,
        }
    }

    /// Creates the hook.
    pub(super) fn create(
        &mut self,
        kind: &str,
        config: &str,
        setup: &SetupAbi,
    ) -> Result<(), EntryError> {
        // SAFETY: the context is the host's for the creation.
        let host = unsafe { state_of(setup.context) };
        let (threads, ranks) = host.map_or((1, (0, 1)), |host| {
            (Threads::count(host), (host.rank(), host.size()))
        });
        // SAFETY: the setup's texts are borrowed for the creation.
        let [name, run_directory, manifest] = unsafe {
            [setup.name, setup.run_directory, setup.manifest]
                .map(|text| text.read().unwrap_or_default())
        };
        let order = Order::Create(Create {
            kind,
            config,
            name,
            run_directory,
            manifest,
            seed: setup.seed,
            threads,
            ranks,
        });
        let scene = Scene {
            point: "new",
            phase: Phase::Train.name(),
            epoch: 0,
            iteration: 0,
        };
        // SAFETY: the context is the host's for the creation.
        let returned = unsafe { self.carry_out(&order, setup.context, scene) };
        match returned {
            Returned { status: 0, .. } => Ok(()),
            Returned {
                status,
                message,
                place,
                ..
            } => Err(EntryError {
                status,
                message,
                place,
            }),
        }
    }

    /// Calls the hook at a mount point.
    ///
    /// # Safety
    ///
    /// The view must be the host's for this call.
    pub(super) unsafe fn call(&mut self, point: u32, view: &ViewAbi) -> Returned {
        let known = Point::from_number(point);
        // SAFETY: the view's payload is that of its mount point, by the host's contract.
        let payload = unsafe { payload(known, view) };
        // SAFETY: the view's texts are borrowed for the call.
        let stream = unsafe { view.stream.read() }.unwrap_or_default();
        let place = (point, view.phase);
        self.prefetched.begin();
        self.borrowed.begin();
        let order = Order::Call(Call {
            counters: [
                view.epoch,
                view.epochs,
                view.iteration,
                view.update,
                view.batch,
                view.batches,
                view.samples,
                view.batch_size,
                view.ordinal,
            ],
            loss: view.loss,
            learning_rate: view.learning_rate,
            flags: view.flags,
            point,
            phase: view.phase,
            stream,
            payload,
            prefetched: self.prefetched.at(place).len() as u32,
        });
        let scene = Scene {
            point: known.map_or("an unknown point", Point::name),
            phase: Phase::from_number(view.phase).map_or("", Phase::name),
            epoch: view.epoch,
            iteration: view.iteration,
        };
        // SAFETY: the context is the host's for this call.
        unsafe { self.carry_out(&order, view.context, scene) }
    }

    /// Carries out an order; an end of the process is a result with the status [`ENDED`].
    ///
    /// # Safety
    ///
    /// `context` must be null or the host's argument for the call in progress.
    pub(super) unsafe fn carry_out(
        &mut self,
        order: &Order<'_>,
        context: *const c_void,
        scene: Scene<'_>,
    ) -> Returned {
        // SAFETY: guaranteed by the caller.
        let result = unsafe {
            begin_transaction(context);
            self.try_carry_out(order, context)
        };
        self.show_output(context);
        match result {
            Ok(mut returned) => {
                // SAFETY: guaranteed by the caller.
                unsafe { commit(context) };
                if self.is_sandboxed && returned.status != Status::OK.0 {
                    returned.message.push_str(sandbox_hint(&returned.message));
                }
                returned
            }
            Err(ending) => {
                // SAFETY: guaranteed by the caller.
                self.was_seen_by_others = unsafe { roll_back(context) };
                self.ended(&ending, scene)
            }
        }
    }

    /// Ends what is left of the process, and reports its end.
    #[cold]
    fn ended(&mut self, ending: &Ending, scene: Scene<'_>) -> Returned {
        let lines = self
            .process
            .take()
            .map(HookProcess::kill)
            .unwrap_or_default();
        let HookFacts {
            name,
            plugin,
            file,
            run_directory,
            ..
        } = &self.facts;
        let who = (name.as_str(), plugin.as_str(), file.as_path());
        let report = crash_report::write(run_directory, who, ending, scene, &lines);
        let mut message = ending.to_string();
        for line in &lines {
            message = format!(
                "{message}\n| {}",
                sconce_manifest::diagnostic::shortened(line)
            );
        }
        if self.was_seen_by_others {
            message = format!(
                "{message}\nthe run ends: in this call it has exchanged something with the other ranks, which can't be undone"
            );
        }
        if let Some(report) = report {
            message = format!("{message}\nreport: {}", report.display());
        }
        Returned {
            status: ENDED,
            message,
            place: String::new(),
            bytes: Vec::new(),
        }
    }

    /// Sends an order and answers what the child asks, until it returns.
    ///
    /// # Safety
    ///
    /// As for [`carry_out`](Proxy::carry_out).
    unsafe fn try_carry_out(
        &mut self,
        order: &Order<'_>,
        context: *const c_void,
    ) -> Result<Returned, Ending> {
        const GONE: &str = "its process has ended before";
        let begin = Instant::now();
        // SAFETY: guaranteed by the caller.
        let host = unsafe { state_of(context) };
        let mut message = std::mem::take(&mut self.outgoing);
        message.clear();
        append(order, &mut message).map_err(|error| confused(&error))?;
        let place = match order {
            Order::Call(call) => Some((call.point, call.phase)),
            _ => None,
        };
        if let Some(place) = place {
            self.append_prefetched(place, &mut message, host)
                .map_err(|error| confused(&error))?;
        }
        let mut limit = self.limit;
        let process = self.process.as_mut().ok_or_else(|| confused(GONE))?;
        process.send(&message)?;
        let mut incoming = std::mem::take(&mut self.incoming);
        let returned = loop {
            let process = self.process.as_mut().ok_or_else(|| confused(GONE))?;
            process.receive(&mut incoming, begin, limit)?;
            let word = postcard::from_bytes(&incoming).map_err(|error| confused(&error))?;
            match word {
                Word::Ask(ask, posted) => {
                    self.prefetched.note(&ask);
                    message.clear();
                    let asked = Instant::now();
                    let waits_for_others =
                        matches!(ask, Ask::Gather(_) | Ask::Host(HostCall::Forward(_)));
                    let answered = match host {
                        None => refuse(&mut message),
                        Some(host) => {
                            let mut server = Server {
                                host,
                                channel: &process.channel,
                                borrowed: &mut self.borrowed,
                            };
                            take_posted(&mut server, posted)?;
                            server.answer(&ask, &mut message)
                        }
                    };
                    answered.map_err(|error| confused(&error))?;
                    if waits_for_others {
                        // The time of other ranks, and of the model, is not the hook's.
                        limit = limit.map(|limit| limit.saturating_add(asked.elapsed()));
                    }
                    process.send(&message)?;
                }
                Word::Return(returned) => {
                    let mut result = Returned {
                        status: if returned.status == ENDED {
                            1
                        } else {
                            returned.status
                        },
                        message: returned.message.to_owned(),
                        place: returned.place.to_owned(),
                        bytes: returned.bytes.to_vec(),
                    };
                    if let Some(host) = host {
                        let mut server = Server {
                            host,
                            channel: &process.channel,
                            borrowed: &mut self.borrowed,
                        };
                        let refusal = take_posted(&mut server, returned.posted)?;
                        // Last, since the call has happened from here on.
                        // SAFETY: the context is that of this call, by the caller's guarantee.
                        let given_back =
                            unsafe { server.borrowed.give_back(server.channel, context) };
                        given_back.map_err(|error| confused(&error))?;
                        if let (0, Some(refusal)) = (result.status, refusal) {
                            result.status = Status::INVALID.0;
                            result.message = refusal;
                        }
                    }
                    if let Some(place) = place {
                        self.prefetched.end(place, returned.used);
                    }
                    break result;
                }
            }
        };
        self.outgoing = message;
        self.incoming = incoming;
        Ok(returned)
    }

    /// Appends the prefetched answers of a mount point to an order.
    fn append_prefetched(
        &mut self,
        place: (u32, u32),
        message: &mut Vec<u8>,
        host: Option<&BridgeState<'_>>,
    ) -> postcard::Result<()> {
        let (Some(process), Some(host)) = (&self.process, host) else {
            return Ok(());
        };
        let mut server = Server {
            host,
            channel: &process.channel,
            borrowed: &mut self.borrowed,
        };
        for question in self.prefetched.at(place) {
            if let Ok(ask) = postcard::from_bytes(question) {
                message.extend_from_slice(question);
                server.answer(&ask, message)?;
            }
        }
        Ok(())
    }

    /// Logs what the process has printed.
    fn show_output(&self, context: *const c_void) {
        let Some(process) = &self.process else {
            return;
        };
        let lines = process.output.take();
        for line in lines {
            // SAFETY: the context is the host's for the call in progress, or null.
            if let Some(host) = unsafe { state_of(context) } {
                Log::log(host, Level::Info as u32, &line);
            } else {
                let name = &self.facts.name;
                let line = sconce_manifest::printable::one_line(&line);
                sconce_manifest::screen::message(&format!("{name}: {line}\n"));
            }
        }
    }

    /// Saves the hook's state, and keeps a copy for a restart.
    pub(super) fn save(&mut self) -> Returned {
        // SAFETY: without a context no function of the host is called.
        let returned = unsafe { self.carry_out(&Order::Save, ptr::null(), outside("save_state")) };
        if returned.status == Status::OK.0 && self.facts.keeps_state {
            self.state = Some(returned.bytes.clone());
        }
        returned
    }

    /// Drops the hook and waits for the process to exit.
    pub(super) fn close(&mut self) -> Returned {
        if self.has_ended() {
            return Returned {
                status: 0,
                message: String::new(),
                place: String::new(),
                bytes: Vec::new(),
            };
        }
        let own_limit = self.limit;
        self.limit.get_or_insert(DROPPING);
        // SAFETY: without a context no function of the host is called.
        let mut returned = unsafe { self.carry_out(&Order::Drop, ptr::null(), outside("drop")) };
        if let Some(process) = self.process.take() {
            let (ending, lines) = process.wait(own_limit);
            if let (0, Some(ending)) = (returned.status, ending) {
                returned.status = Status::ERROR.0;
                returned.message = format!("it {ending} at the process's exit");
                for line in lines {
                    returned.message = format!("{}\n| {line}", returned.message);
                }
            }
        }
        returned
    }
}

impl HookApart for Proxy {
    fn has_ended(&self) -> bool {
        self.process.is_none()
    }

    fn was_seen_by_others(&self) -> bool {
        self.was_seen_by_others
    }

    fn last_state(&self) -> Option<&[u8]> {
        self.state.as_deref()
    }

    fn abandon(&mut self) {
        self.process = None;
    }
}

/// What to do about a failure that a sandbox may have caused, by its message; empty for others.
fn sandbox_hint(message: &str) -> &'static str {
    const REFUSALS: [&str; 7] = [
        "Permission denied",
        "Operation not permitted",
        // Python's, of a directory that it may not read.
        "ModuleNotFoundError",
        "No module named",
        "failed to map segment",
        "annot allocate memory",
        "MemoryError",
    ];
    if REFUSALS.iter().any(|words| message.contains(words)) {
        return "\nhint: it runs in a sandbox: `read`, `write`, `network`, `processes` and `memory` in its `sandbox` allow more, and \
                SCONCE_SANDBOX_LOG=1 names the system calls that are refused";
    }
    ""
}

/// How long dropping a hook may take whose calls have no limit.
const DROPPING: Duration = Duration::from_secs(60);

fn confused(what: &(impl ToString + ?Sized)) -> Ending {
    Ending::Confused(what.to_string())
}

/// A place outside of mount points.
pub(super) fn outside(point: &str) -> Scene<'_> {
    Scene {
        point,
        phase: "",
        epoch: 0,
        iteration: 0,
    }
}

/// Appends the answer to what is asked while a state is saved or loaded, or the hook is dropped.
fn refuse(message: &mut Vec<u8>) -> postcard::Result<()> {
    let refusal = Refusal::new(Status::NOT_LEGAL_HERE, "the run can't be used here");
    append(&Reply::refused(refusal), message)
}

/// Does what the hook posted; returns why something was refused.
fn take_posted(server: &mut Server<'_>, posted: Posted<'_>) -> Result<Option<String>, Ending> {
    let mut rest = posted.bytes;
    let mut refusal = None;
    for _ in 0..posted.count {
        let (ask, behind) =
            postcard::take_from_bytes::<Ask<'_>>(rest).map_err(|error| confused(&error))?;
        if !matches!(&ask, Ask::Host(call) if call.may_be_posted()) {
            return Err(confused(&"it posted what needs an answer"));
        }
        let message = server.reply(&ask).answer.message;
        if !message.is_empty() {
            refusal.get_or_insert_with(|| message.into_owned());
        }
        rest = behind;
    }
    Ok(refusal)
}
