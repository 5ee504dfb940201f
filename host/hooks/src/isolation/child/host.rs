//! Carries out the parent's orders.

use std::cell::RefCell;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

use abi_stable::std_types::RString;
use sconce_plugin_api::abi::{
    CheckpointAbi, ErrorAbi, FailureAbi, HookTimeAbi, ModuleAbi, OutcomeAbi, ProfileAbi, SetupAbi,
    Status, TextAbi, ViewAbi,
};

use super::super::channel::{Channel, inherited};
use super::super::message::{Call, Create, Order, PayloadText};
use super::super::sandbox;
use super::{session, tables};
use crate::bridge;
use crate::exit;
use crate::plugin::entry_error::EntryError;
use crate::plugin::instance::HookInstance;
use crate::plugin::library::Library;

/// Entry point of the hidden subcommand of the process `parent`. `files` are the descriptors of the memory (to the
/// child, from it) and of the bells (the child's, the parent's); `library` is the file to open; `rules` is the sandbox as
/// JSON, or empty.
pub fn answer(parent: u32, files: &[i32], library: &Path, rules: &str) -> u8 {
    crate::expendable::settle_in_without_limit();
    let now = rustix::process::getppid().map(|now| now.as_raw_nonzero().get());
    if now.and_then(|now| u32::try_from(now).ok()) != Some(parent) {
        // The parent ended before this process could ask to end with it.
        return exit::USAGE;
    }
    let channel = match open(files, library) {
        Ok(channel) => channel,
        Err(error) => {
            sconce_manifest::screen::message(&format!("the hook's process can't start: {error}\n"));
            return exit::USAGE;
        }
    };
    let refusal = sandbox::enter(rules, channel.size(), library).err();
    session::begin(channel);
    bridge::set_root(tables::root());
    let mut host = HookHost {
        library: None,
        hook: None,
        refusal,
    };
    loop {
        match host.carry_out(library) {
            Ok(true) => {}
            Ok(false) => return exit::DONE,
            Err(_) => return exit::USAGE,
        }
    }
}

fn open(files: &[i32], library: &Path) -> io::Result<Channel> {
    let &[to_child, from_child, bell, other_bell] = files else {
        return Err(io::Error::other("it is started by a run, not by hand"));
    };
    close_others(files.iter().copied().chain(handed_over(library)).collect())?;
    // SAFETY: the parent has handed them over for this, and nothing else here knows of them.
    let files = unsafe {
        [
            inherited(to_child)?,
            inherited(from_child)?,
            inherited(bell)?,
            inherited(other_bell)?,
        ]
    };
    Channel::of_child(files)
}

/// Closes what this process has inherited beside what was handed over and its output: descriptors that the run itself was
/// started with, and did not open.
fn close_others(mut kept: Vec<i32>) -> io::Result<()> {
    const OPEN: &str = "/proc/self/fd";
    kept.extend([0, 1, 2]);
    let target = |number: i32| std::fs::read_link(format!("{OPEN}/{number}")).ok();
    let output = target(2);
    // The directory's descriptor is among them, and is closed before anything else is.
    let entries = std::fs::read_dir(OPEN)?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers: Vec<i32> = numbers.filter(|number| !kept.contains(number)).collect();
    for number in numbers {
        let file = target(number);
        // The directory itself is no longer open; and this program keeps a duplicate of its output, for its own messages.
        if file.is_some() && file != output {
            // SAFETY: nothing in this process has opened it: it begins here.
            unsafe { rustix::io::close(number) };
        }
    }
    Ok(())
}

/// The descriptor under which the library was handed over, if it was.
fn handed_over(library: &Path) -> Option<i32> {
    let number = library.strip_prefix("/proc/self/fd").ok()?;
    number.to_str()?.parse().ok()
}

/// Closes the library's file if it was handed over as a descriptor: it is mapped, and nothing opens it again.
fn close_inherited(library: &Path) {
    if let Some(number) = handed_over(library) {
        // SAFETY: the parent has handed it over for this, and nothing else here knows of it.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

/// The library and its hook.
struct HookHost {
    library: Option<Library>,
    hook: Option<HookInstance>,
    /// Why the sandbox could not be set up; nothing is opened then.
    refusal: Option<String>,
}

/// The result of an order.
struct Outcome {
    status: u32,
    message: String,
    place: String,
    bytes: Vec<u8>,
}

impl Outcome {
    const DONE: Outcome = Outcome {
        status: 0,
        message: String::new(),
        place: String::new(),
        bytes: Vec::new(),
    };

    fn failed(message: String) -> Outcome {
        Outcome {
            status: Status::ERROR.0,
            message,
            ..Outcome::DONE
        }
    }
}

impl From<Result<(), EntryError>> for Outcome {
    fn from(result: Result<(), EntryError>) -> Outcome {
        match result {
            Ok(()) => Outcome::DONE,
            Err(error) => Outcome {
                status: error.status,
                message: error.message,
                place: error.place,
                bytes: Vec::new(),
            },
        }
    }
}

impl HookHost {
    /// Carries out the next order; returns whether there will be another one.
    fn carry_out(&mut self, library: &Path) -> io::Result<bool> {
        let lost = || io::Error::other("there is no session");
        let bytes = session::with(session::Session::next_order).ok_or_else(lost)??;
        let (order, behind) = postcard::take_from_bytes(&bytes).map_err(io::Error::other)?;
        let begin = bytes.len() - behind.len();
        let outcome = match order {
            Order::Open => self.open(library),
            Order::Create(create) => self.create(&create),
            Order::Call(call) => {
                let outcome = self.call(&call, begin)?;
                return session::with(|session| send(session, &outcome))
                    .ok_or_else(lost)?
                    .map(|()| true);
            }
            Order::Save => match self.hook.as_mut().map(HookInstance::save_state) {
                Some(Ok(bytes)) => Outcome {
                    bytes,
                    ..Outcome::DONE
                },
                Some(Err(error)) => Outcome::from(Err(error)),
                None => Outcome::failed("there is no hook".to_owned()),
            },
            Order::Load(state) => match self.hook.as_mut() {
                Some(hook) => Outcome::from(hook.load_state(state)),
                None => Outcome::failed("there is no hook".to_owned()),
            },
            Order::Drop => {
                let outcome = Outcome::from(self.hook.take().map_or(Ok(()), HookInstance::close));
                session::with(|session| send(session, &outcome)).ok_or_else(lost)??;
                return Ok(false);
            }
        };
        session::with(|session| send(session, &outcome)).ok_or_else(lost)??;
        Ok(true)
    }

    fn open(&mut self, file: &Path) -> Outcome {
        if let Some(refusal) = self.refusal.take() {
            return Outcome::failed(refusal);
        }
        let described = Library::open_quietly(file).and_then(|library| {
            let description = library.describe()?;
            self.library = Some(library);
            Ok(description)
        });
        close_inherited(file);
        match described {
            Ok(description) => Outcome {
                bytes: description.to_string().into_bytes(),
                ..Outcome::DONE
            },
            Err(refusal) => Outcome::failed(refusal.cause.to_string()),
        }
    }

    fn create(&mut self, create: &Create<'_>) -> Outcome {
        let Some(library) = &self.library else {
            return Outcome::failed("the library is not open".to_owned());
        };
        session::with(|session| {
            session.threads = create.threads;
            session.ranks = create.ranks;
        });
        let setup = SetupAbi {
            host: ptr::from_ref(tables::root()),
            context: tables::CONTEXT,
            name: TextAbi::new(create.name),
            run_directory: TextAbi::new(create.run_directory),
            manifest: TextAbi::new(create.manifest),
            seed: create.seed,
        };
        let created = HookInstance::create(library, create.kind, create.config, &setup);
        Outcome::from(created.map(|hook| self.hook = Some(hook)))
    }

    fn call(&mut self, call: &Call<'_>, begin: usize) -> io::Result<Outcome> {
        let Some(hook) = &self.hook else {
            return Ok(Outcome::failed("there is no hook".to_owned()));
        };
        session::with(|session| {
            session.phase = call.phase;
            session.open_prefetched(call.prefetched, begin)
        })
        .unwrap_or(Ok(()))?;
        let (instance, entry) = hook.entry();
        let mut error = ErrorAbi::new();
        let status = with_payload(&call.payload, |payload| {
            let [
                epoch,
                epochs,
                iteration,
                update,
                batch,
                batches,
                samples,
                batch_size,
                ordinal,
            ] = call.counters;
            let view = ViewAbi {
                context: tables::CONTEXT,
                payload,
                stream: TextAbi::new(call.stream),
                epoch,
                epochs,
                iteration,
                update,
                batch,
                batches,
                samples,
                batch_size,
                ordinal,
                loss: call.loss,
                learning_rate: call.learning_rate,
                flags: call.flags,
                point: call.point,
                phase: call.phase,
            };
            // SAFETY: the instance has not been dropped; view, payload and error are valid for the call.
            unsafe { entry(instance, call.point, &raw const view, &raw mut error) }
        });
        if status == Status::OK.0 {
            return Ok(Outcome::DONE);
        }
        Ok(Outcome {
            status,
            message: text(&error.message),
            place: text(&error.place),
            bytes: Vec::new(),
        })
    }
}

fn text(text: &RString) -> String {
    String::from_utf8_lossy(text.as_str().as_bytes()).into_owned()
}

fn send(session: &mut session::Session, outcome: &Outcome) -> io::Result<()> {
    let Outcome {
        status,
        message,
        place,
        bytes,
    } = outcome;
    session.give_back(*status, message, place, bytes)
}

thread_local! {
    /// Memory for the times in a profile, used again.
    static TIMES: RefCell<Vec<HookTimeAbi>> = const { RefCell::new(Vec::new()) };
}

/// Calls a function with a mount point's payload.
fn with_payload(
    payload: &PayloadText<'_>,
    call: impl FnOnce(*const std::ffi::c_void) -> u32,
) -> u32 {
    match *payload {
        PayloadText::None => call(ptr::null()),
        PayloadText::Outcome { kind, reason } => {
            let reason = TextAbi::new(reason);
            call(ptr::from_ref(&OutcomeAbi { kind, reason }).cast())
        }
        PayloadText::Failure {
            origin,
            message,
            hook,
        } => {
            let payload = FailureAbi {
                origin,
                message: TextAbi::new(message),
                hook: TextAbi::new(hook),
            };
            call(ptr::from_ref(&payload).cast())
        }
        PayloadText::Module { name, kind } => {
            let payload = ModuleAbi {
                name: TextAbi::new(name),
                kind: TextAbi::new(kind),
            };
            call(ptr::from_ref(&payload).cast())
        }
        PayloadText::Checkpoint {
            texts: [path, tag, hook, error, reference, missing],
            bytes,
            seconds,
        } => {
            let payload = CheckpointAbi {
                path: TextAbi::new(path),
                tag: TextAbi::new(tag),
                hook: TextAbi::new(hook),
                error: TextAbi::new(error),
                bytes,
                seconds,
                reference: TextAbi::new(reference),
                missing: TextAbi::new(missing),
            };
            call(ptr::from_ref(&payload).cast())
        }
        PayloadText::Profile { times, ref hooks } => TIMES.with(|memory| {
            let mut memory = memory.borrow_mut();
            memory.clear();
            let hooks = hooks.iter();
            memory.extend(
                hooks.map(|&(name, calls, [seconds, longest, requests])| HookTimeAbi {
                    name: TextAbi::new(name),
                    calls,
                    seconds,
                    longest,
                    requests,
                }),
            );
            let [total, data, forward, loss, backward, update] = times;
            let payload = ProfileAbi {
                total,
                data,
                forward,
                loss,
                backward,
                update,
                hooks: memory.as_ptr(),
                hook_count: memory.len(),
            };
            call(ptr::from_ref(&payload).cast())
        }),
    }
}
