//! A transport of a plugin, opened: its table of functions as the host's [`Transport`].

use std::ffi::c_void;
use std::fmt;
use std::time::Duration;

use abi_stable::std_types::RString;
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::TransportTable;
use sconce_plugin_api::transport::TransportFacts;

use super::interface::{Transport, TransportError};
use super::waiting::{Called, Waiting};
use crate::exit;
use crate::faults;
use crate::plugin::Inspected;
use crate::plugin::entry_error::EntryError;
use crate::plugin::library::Library;
use crate::team::machine;

/// A transport of a plugin, connected to all ranks. Dropping it ends the connection.
pub(super) struct OpenedTransport {
    table: &'static TransportTable,
    instance: *mut c_void,
    facts: TransportFacts,
    waiting: Waiting,
    file_hash: String,
    /// Offsets as the table takes them; kept for their memory.
    offsets: [Vec<u64>; 2],
}

// SAFETY: the table's contract allows calls on any thread, one after the other; only `&mut self` makes any.
unsafe impl Send for OpenedTransport {}

impl fmt::Debug for OpenedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenedTransport").field(&self.facts).finish()
    }
}

impl OpenedTransport {
    /// Opens the transport of this name of a plugin's library, with `config` as a JSON object.
    ///
    /// # Errors
    ///
    /// With the plugin's message.
    pub(super) fn open(
        (plugin, library): (&Inspected, &Library),
        name: &str,
        config: &str,
        timeout: Duration,
    ) -> Result<OpenedTransport, TransportError> {
        let table = library.extension::<TransportTable>();
        let table = table.ok_or_else(|| error("its metadata names transports, but it has none"))?;
        let waiting = Waiting::start(format!("a rank on {}", machine::name()), timeout);
        let mut instance = std::ptr::null_mut();
        let mut said = RString::new();
        let mut failure = ErrorAbi::new();
        let called = waiting.during(|| {
            // SAFETY: the table has the layout frozen under its identifier; texts and output locations are valid for
            // the call.
            unsafe {
                (table.open)(
                    TextAbi::new(name),
                    TextAbi::new(config),
                    timeout.as_secs_f64(),
                    &raw mut instance,
                    &raw mut said,
                    &raw mut failure,
                )
            }
        });
        result(&called, &mut failure)?;
        // The plugin's bytes may be anything.
        let facts = serde_json::from_slice::<TransportFacts>(said.as_str().as_bytes());
        let (facts, problem) = match facts {
            Ok(facts) if facts.rank < facts.size && facts.hosts.len() == facts.size => {
                (facts, None)
            }
            Ok(facts) => (facts, Some("its facts contradict each other".to_owned())),
            Err(error) => (
                no_facts(),
                Some(format!("its facts are not valid: {error}")),
            ),
        };
        let who = format!("rank {} ({})", facts.rank, machine::name());
        let opened = OpenedTransport {
            table,
            instance,
            waiting: Waiting::start(who, timeout),
            file_hash: plugin.sha256().to_owned(),
            facts,
            offsets: Default::default(),
        };
        match problem {
            Some(problem) => Err(error(problem)),
            None => Ok(opened),
        }
    }

    /// Copies two lists of offsets into the table's form, and checks them against the data's lengths.
    fn take_offsets(&mut self, lists: [(&[usize], usize); 2]) -> Result<(), TransportError> {
        let size = self.facts.size;
        for (kept, (at, length)) in self.offsets.iter_mut().zip(lists) {
            let fits = at.len() == size + 1
                && at.first() == Some(&0)
                && at.last() == Some(&length)
                && at.is_sorted();
            if !fits {
                return check(false);
            }
            kept.clear();
            kept.extend(at.iter().map(|&offset| offset as u64));
        }
        Ok(())
    }
}

fn no_facts() -> TransportFacts {
    TransportFacts {
        rank: 0,
        size: 1,
        hosts: Vec::new(),
        about: String::new(),
    }
}

/// The error unless lengths fit.
fn check(fits: bool) -> Result<(), TransportError> {
    if fits {
        Ok(())
    } else {
        Err(error("the lengths of a transport's call do not fit"))
    }
}

fn error(message: impl Into<String>) -> TransportError {
    TransportError::new(message)
}

/// The result of a call.
fn result(called: &Called<u32>, failure: &mut ErrorAbi) -> Result<(), TransportError> {
    if called.result == Status::OK.0 {
        return Ok(());
    }
    let entry = EntryError::read(called.result, failure);
    let message = if entry.is_panic() {
        format!(
            "the transport panicked: {} ({})",
            entry.message, entry.place
        )
    } else {
        entry.message
    };
    Err(TransportError {
        message,
        is_late: called.is_late,
    })
}

impl Transport for OpenedTransport {
    fn rank(&self) -> usize {
        self.facts.rank
    }

    fn size(&self) -> usize {
        self.facts.size
    }

    fn hosts(&self) -> &[String] {
        &self.facts.hosts
    }

    fn name(&self) -> &str {
        &self.facts.about
    }

    fn file_hash(&self) -> &str {
        &self.file_hash
    }

    fn broadcast(&mut self, data: &mut [u8], root: usize) -> Result<(), TransportError> {
        check(root < self.facts.size)?;
        let mut failure = ErrorAbi::new();
        let (length, root) = (data.len() as u64, root as u64);
        let called = self.waiting.during(|| {
            // SAFETY: the instance is open and not in use; pointer and length are the data's.
            unsafe {
                let error = &raw mut failure;
                (self.table.broadcast)(self.instance, data.as_mut_ptr(), length, root, error)
            }
        });
        result(&called, &mut failure)
    }

    fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<(), TransportError> {
        check(own.len().checked_mul(self.facts.size) == Some(all.len()))?;
        let mut failure = ErrorAbi::new();
        let (length, all) = (own.len() as u64, all.as_mut_ptr());
        let called = self.waiting.during(|| {
            // SAFETY: the instance is open and not in use; `all` has room for every rank's `own`.
            unsafe {
                let error = &raw mut failure;
                (self.table.gather)(self.instance, own.as_ptr(), length, all, error)
            }
        });
        result(&called, &mut failure)
    }

    fn exchange(
        &mut self,
        send: &[u8],
        send_at: &[usize],
        receive: &mut [u8],
        receive_at: &[usize],
    ) -> Result<(), TransportError> {
        self.take_offsets([(send_at, send.len()), (receive_at, receive.len())])?;
        let [send_at, receive_at] = &self.offsets;
        let mut failure = ErrorAbi::new();
        let receive = receive.as_mut_ptr();
        let called = self.waiting.during(|| {
            // SAFETY: the instance is open and not in use; the offsets are as many as the table wants, in order, and
            // within the data.
            unsafe {
                (self.table.exchange)(
                    self.instance,
                    send.as_ptr(),
                    send_at.as_ptr(),
                    receive,
                    receive_at.as_ptr(),
                    &raw mut failure,
                )
            }
        });
        result(&called, &mut failure)
    }

    fn collect(&mut self, data: &mut [u8], at: &[usize]) -> Result<(), TransportError> {
        self.take_offsets([(at, data.len()), (at, data.len())])?;
        let [at, _] = &self.offsets;
        let mut failure = ErrorAbi::new();
        let called = self.waiting.during(|| {
            // SAFETY: as for `exchange`.
            unsafe {
                let error = &raw mut failure;
                (self.table.collect)(self.instance, data.as_mut_ptr(), at.as_ptr(), error)
            }
        });
        result(&called, &mut failure)
    }

    fn abort(&mut self, code: u8) {
        // A transport may end the process by `exit`, which in mid-run would be reported as a hook's.
        faults::expect_exit();
        // SAFETY: the instance is open and not in use.
        unsafe { (self.table.abort)(self.instance, u32::from(code)) }
    }
}

impl Drop for OpenedTransport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The other ranks wait for this one: to close would be to wait for them.
            self.abort(exit::CRASH);
        }
        let mut failure = ErrorAbi::new();
        // SAFETY: the instance is open, not in use, and never used again. That the end of the connection fails changes
        // nothing any more.
        self.waiting.during(|| unsafe {
            (self.table.close)(self.instance, &raw mut failure);
        });
    }
}
