//! The child of a rehearsal: creates the hooks one after the other, and records the results.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ptr;

use sconce_plugin_api::abi::{SetupAbi, Status, TextAbi};

use super::{OrderedHook, RehearsalOrder, Word};
use crate::bridge::{self, BridgeState};
use crate::exit;
use crate::log::{Level, Log};
use crate::plugin::entry_error::EntryError;
use crate::plugin::instance::HookInstance;
use crate::plugin::library::Library;

/// Entry point of the hidden subcommand.
pub fn answer() -> u8 {
    match try_answer() {
        Ok(()) => exit::DONE,
        Err(error) => {
            crate::screen::message(&format!("the hooks can't be tried: {error}\n"));
            exit::USAGE
        }
    }
}

fn try_answer() -> io::Result<()> {
    let mut told = String::new();
    io::stdin().read_to_string(&mut told)?;
    let order: RehearsalOrder = serde_json::from_str(&told)?;
    #[cfg(target_os = "linux")]
    crate::expendable::settle_in();
    let words = Words::new(File::create(&order.answer)?);
    let shared = BridgeState::new(&words);
    shared.set_plan(order.plan.clone());
    for (index, hook) in order.hooks.iter().enumerate() {
        words.begin(index)?;
        let word = match create(hook, &order, &shared) {
            Ok(instance) => {
                // There is no run after which it could be dropped.
                std::mem::forget(instance);
                Word::Created(index)
            }
            Err(error) => Word::Refused {
                hook: index,
                status: error.status,
                message: error.message,
                place: error.place,
            },
        };
        for metric in shared.requests.take_declared() {
            words.write(&Word::Publishes(metric))?;
        }
        words.write(&word)?;
    }
    words.write(&Word::Done)
}

fn create(
    hook: &OrderedHook,
    order: &RehearsalOrder,
    shared: &BridgeState<'_>,
) -> Result<HookInstance, EntryError> {
    let library = Library::open_from(&hook.library, &hook.file).map_err(|refusal| EntryError {
        status: Status::ERROR.0,
        message: refusal.diagnostic().message,
        place: String::new(),
    })?;
    let directory = order.directory.to_string_lossy();
    shared.register(&hook.name);
    let setup = SetupAbi {
        host: ptr::from_ref(bridge::root()),
        context: shared.context(),
        name: TextAbi::new(&hook.name),
        run_directory: TextAbi::new(&directory),
        manifest: TextAbi::new(&order.manifest),
        seed: order.seed,
    };
    HookInstance::create(&library, &hook.kind, &hook.config, &setup)
}

/// The file of the answer, which also receives the hooks' warnings.
struct Words {
    file: RefCell<File>,
    hook: std::cell::Cell<usize>,
}

impl Words {
    fn new(file: File) -> Words {
        Words {
            file: RefCell::new(file),
            hook: std::cell::Cell::new(0),
        }
    }

    fn begin(&self, hook: usize) -> io::Result<()> {
        self.hook.set(hook);
        self.write(&Word::Begins(hook))
    }

    fn write(&self, word: &Word) -> io::Result<()> {
        let mut line = serde_json::to_string(word)?;
        line.push('\n');
        self.file.borrow_mut().write_all(line.as_bytes())
    }
}

impl Log for Words {
    fn log(&self, level: Level, _source: &str, message: &str) {
        if level == Level::Warn {
            // A missing line is noticed at the end, since `Done` will be missing too.
            drop(self.write(&Word::Warns {
                hook: self.hook.get(),
                message: message.to_owned(),
            }));
        }
    }
}
