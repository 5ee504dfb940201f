//! What the functions of the tables share during a call.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::rc::Rc;

use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::Refusal;

use super::super::channel::{Bump, Channel};
use super::super::message::{Ask, LentTensor, Posted, Reply, Return, Word, append};

/// The child's end of the channel, and the call in progress.
pub(super) struct Session {
    /// Never dropped: it lasts as long as the process, and a hook may have closed its descriptors, which must not be closed twice.
    pub(super) channel: ManuallyDrop<Channel>,
    /// The order in progress; prefetched answers are parts of it.
    order: Rc<Vec<u8>>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    prefetched: Vec<PrefetchedAnswer>,
    /// Prefetched that were used, as a bit set.
    used: u64,
    posted: Vec<u8>,
    posted_count: u32,
    /// Texts that the hook may keep for the run.
    texts: HashSet<&'static str>,
    /// JSON of values by lifetime and name; earlier ones are kept for the call.
    values: BTreeMap<(u32, String), Vec<Box<str>>>,
    /// Metrics that the host has accepted before, by phase and name.
    pub(super) accepted: HashSet<(u32, &'static str)>,
    /// Phase of the call.
    pub(super) phase: u32,
    pub(super) lent: Vec<Lent>,
    pub(super) given: Bump,
    /// Threads that the host computes on.
    pub(super) threads: u32,
    /// Number of the host's process among those that train together, and how many they are.
    pub(super) ranks: (u32, u32),
}

/// The answer to a question, given in advance: where both are in the order.
struct PrefetchedAnswer {
    question: Range<usize>,
    answer: Range<usize>,
}

/// A tensor that the hook was lent in this call.
pub(super) struct Lent {
    pub(super) collection: u32,
    pub(super) index: u64,
    pub(super) is_writable: bool,
    pub(super) tensor: LentTensor,
    pub(super) name: &'static str,
}

thread_local! {
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Runs a function with the session; `None` on other threads, whose calls the host does not allow.
pub(super) fn with<R>(function: impl FnOnce(&mut Session) -> R) -> Option<R> {
    SESSION.with(|session| {
        let mut session = session.try_borrow_mut().ok()?;
        session.as_mut().map(function)
    })
}

/// Makes this the session of the thread.
pub(super) fn begin(channel: Channel) {
    SESSION.with(|session| {
        *session.borrow_mut() = Some(Session {
            channel: ManuallyDrop::new(channel),
            order: Rc::default(),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            prefetched: Vec::new(),
            used: 0,
            posted: Vec::new(),
            posted_count: 0,
            texts: HashSet::new(),
            values: BTreeMap::new(),
            accepted: HashSet::new(),
            phase: 0,
            lent: Vec::new(),
            given: Bump::default(),
            threads: 1,
            ranks: (0, 1),
        });
    });
}

impl Session {
    /// Waits for the next order and returns a copy of it.
    pub(super) fn next_order(&mut self) -> io::Result<Rc<Vec<u8>>> {
        self.prefetched.clear();
        self.used = 0;
        self.posted.clear();
        self.posted_count = 0;
        self.lent.clear();
        self.given.reset();
        for earlier in self.values.values_mut() {
            let old = earlier.len().saturating_sub(1);
            earlier.drain(..old);
        }
        // The caller has dropped the last one, so that its memory is used again.
        let mut order = Rc::try_unwrap(std::mem::take(&mut self.order)).unwrap_or_default();
        let received = self.channel.receive(&mut order, None, None);
        received.map_err(|silence| io::Error::other(format!("{silence:?}")))?;
        self.order = Rc::new(order);
        Ok(Rc::clone(&self.order))
    }

    /// Finds the prefetched answers in the order, which begin here.
    pub(super) fn open_prefetched(&mut self, prefetched: u32, begin: usize) -> io::Result<()> {
        let order = Rc::clone(&self.order);
        let mut at = begin;
        for _ in 0..prefetched {
            let rest = order.get(at..).unwrap_or_default();
            let (_, behind) =
                postcard::take_from_bytes::<Ask<'_>>(rest).map_err(io::Error::other)?;
            let middle = order.len() - behind.len();
            let (_, behind) =
                postcard::take_from_bytes::<Reply<'_>>(behind).map_err(io::Error::other)?;
            let end = order.len() - behind.len();
            self.prefetched.push(PrefetchedAnswer {
                question: at..middle,
                answer: middle..end,
            });
            at = end;
        }
        Ok(())
    }

    /// Asks the host, unless the answer was given in advance.
    pub(super) fn ask(&mut self, ask: &Ask<'_>) -> Reply<'static> {
        self.try_ask(ask).unwrap_or_else(|error| {
            let message = format!("the host does not answer: {error}");
            Reply::refused(Refusal::new(Status::ERROR, message))
        })
    }

    fn try_ask(&mut self, ask: &Ask<'_>) -> io::Result<Reply<'static>> {
        if ask.can_be_prefetched()
            && let Some(answer) = self.answer(ask)?
        {
            return Ok(answer);
        }
        if ask.has_effect() {
            self.prefetched.clear();
        }
        let posted = Posted {
            count: self.posted_count,
            bytes: &self.posted,
        };
        self.outgoing.clear();
        let word = Word::Ask(ask.clone(), posted);
        append(&word, &mut self.outgoing).map_err(io::Error::other)?;
        self.posted.clear();
        self.posted_count = 0;
        self.channel.send(&self.outgoing)?;
        let received = self.channel.receive(&mut self.incoming, None, None);
        received.map_err(|silence| io::Error::other(format!("{silence:?}")))?;
        let reply: Reply<'_> = postcard::from_bytes(&self.incoming).map_err(io::Error::other)?;
        Ok(reply.into_owned())
    }

    /// The answer that was given in advance, if it was.
    fn answer(&mut self, ask: &Ask<'_>) -> io::Result<Option<Reply<'static>>> {
        if self.prefetched.is_empty() {
            return Ok(None);
        }
        self.outgoing.clear();
        append(ask, &mut self.outgoing).map_err(io::Error::other)?;
        let order = &self.order;
        let is_it = |answer: &PrefetchedAnswer| {
            order.get(answer.question.clone()) == Some(&self.outgoing[..])
        };
        let Some(number) = self.prefetched.iter().position(is_it) else {
            return Ok(None);
        };
        self.used |= 1 << number.min(63);
        let answer = self
            .prefetched
            .get(number)
            .and_then(|answer| order.get(answer.answer.clone()));
        let reply: Reply<'_> =
            postcard::from_bytes(answer.unwrap_or_default()).map_err(io::Error::other)?;
        Ok(Some(reply.into_owned()))
    }

    /// Does what needs no answer: it travels with the next message.
    pub(super) fn post(&mut self, ask: &Ask<'_>) {
        if ask.has_effect() {
            self.prefetched.clear();
        }
        let length = self.posted.len();
        match append(ask, &mut self.posted) {
            Ok(()) => self.posted_count += 1,
            Err(_) => self.posted.truncate(length),
        }
    }

    /// Sends an order's result.
    pub(super) fn give_back(
        &mut self,
        status: u32,
        message: &str,
        place: &str,
        bytes: &[u8],
    ) -> io::Result<()> {
        let word = Word::Return(Return {
            status,
            message,
            place,
            posted: Posted {
                count: self.posted_count,
                bytes: &self.posted,
            },
            used: self.used,
            bytes,
        });
        self.outgoing.clear();
        append(&word, &mut self.outgoing).map_err(io::Error::other)?;
        self.channel.send(&self.outgoing)
    }

    /// A copy of a text that lives as long as the process: of names, of which a run has few.
    pub(super) fn keep_text(&mut self, text: &str) -> &'static str {
        if let Some(known) = self.texts.get(text) {
            return known;
        }
        let kept: &'static str = Box::leak(text.into());
        self.texts.insert(kept);
        kept
    }

    /// The JSON of a value, which lives until the value changes, and at least for the call.
    pub(super) fn keep_value(&mut self, keep: u32, name: &str, json: String) -> TextAbi {
        let known = self.values.entry((keep, name.to_owned())).or_default();
        if known.last().is_none_or(|last| **last != *json) {
            known.push(json.into_boxed_str());
        }
        known
            .last()
            .map_or(TextAbi::EMPTY, |last| TextAbi::new(last))
    }
}
