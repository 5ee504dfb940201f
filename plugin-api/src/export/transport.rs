//! Transports of a plugin: from a name to a table of functions, and from calls of that table to an author's type.

use std::ffi::c_void;
use std::slice;
use std::time::Duration;

use abi_stable::std_types::RString;

use crate::abi::{ErrorAbi, Status, TextAbi};
use crate::ext::TransportTable;
use crate::fence::{Refused, fence, fence_with, keep_panics_of_this_thread};
use crate::transport::{Transport, TransportFacts};
use crate::{HookError, Result};

/// A transport with its type erased: an entry in a plugin's list.
#[doc(hidden)]
pub struct TransportKind {
    name: &'static str,
    open: fn(config: &str, timeout: Duration) -> Result<Box<dyn OpenTransport>>,
}

/// The list entry for a transport's type.
#[doc(hidden)]
pub const fn transport_kind<T: Transport>() -> TransportKind {
    TransportKind {
        name: T::NAME,
        open: |config, timeout| Ok(Box::new(T::open(config, timeout)?)),
    }
}

/// [`Transport`] for trait objects.
trait OpenTransport: Send {
    fn facts(&mut self) -> Result<TransportFacts>;
    fn broadcast(&mut self, data: &mut [u8], root: usize) -> Result<()>;
    fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<()>;
    fn exchange(&mut self, send: Outgoing<'_>, receive: &mut [u8], at: &[u64]) -> Result<()>;
    fn collect(&mut self, data: &mut [u8], at: &[u64]) -> Result<()>;
    fn abort(&mut self, code: u8);
}

/// The bytes to send in an exchange, and their offsets.
#[derive(Clone, Copy)]
struct Outgoing<'a> {
    data: &'a [u8],
    at: &'a [u64],
}

impl<T: Transport> OpenTransport for T {
    fn facts(&mut self) -> Result<TransportFacts> {
        Transport::facts(self)
    }

    fn broadcast(&mut self, data: &mut [u8], root: usize) -> Result<()> {
        Transport::broadcast(self, data, root)
    }

    fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<()> {
        Transport::gather(self, own, all)
    }

    fn exchange(&mut self, send: Outgoing<'_>, receive: &mut [u8], at: &[u64]) -> Result<()> {
        Transport::exchange(self, send.data, send.at, receive, at)
    }

    fn collect(&mut self, data: &mut [u8], at: &[u64]) -> Result<()> {
        Transport::collect(self, data, at)
    }

    fn abort(&mut self, code: u8) {
        Transport::abort(self, code);
    }
}

/// The object that a transport's `instance` pointer points to.
struct Instance {
    transport: Box<dyn OpenTransport>,
    size: usize,
}

/// All entries but `open`, which differs by plugin.
#[doc(hidden)]
pub const fn transport_table(
    open: unsafe extern "C" fn(
        TextAbi,
        TextAbi,
        f64,
        *mut *mut c_void,
        *mut RString,
        *mut ErrorAbi,
    ) -> u32,
) -> TransportTable {
    TransportTable {
        open,
        broadcast,
        gather,
        exchange,
        collect,
        abort,
        close,
    }
}

/// The answer to a query for [`TransportTable`]; null for any other, and where there are no transports.
///
/// # Safety
///
/// `extension` must be valid for the call.
#[doc(hidden)]
pub unsafe fn query_transports(
    kinds: &[TransportKind],
    table: &'static TransportTable,
    extension: TextAbi,
) -> *const c_void {
    // SAFETY: the caller lends the text for this call.
    let wanted = unsafe { extension.read() };
    if !kinds.is_empty() && wanted == Some(TransportTable::ID) {
        (&raw const *table).cast()
    } else {
        std::ptr::null()
    }
}

/// Implementation of a plugin's [`TransportTable::open`].
///
/// # Safety
///
/// All pointers must be valid for the call.
#[doc(hidden)]
pub unsafe fn open_from(
    kinds: &[TransportKind],
    name: TextAbi,
    config: TextAbi,
    timeout: f64,
    instance: *mut *mut c_void,
    facts: *mut RString,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the caller guarantees that all pointers are valid for the call.
    unsafe {
        fence_with(error, || {
            keep_panics_of_this_thread();
            let (Some(name), Some(config), Some(instance), Some(facts)) = (
                name.read(),
                config.read(),
                instance.as_mut(),
                facts.as_mut(),
            ) else {
                return Err(HookError::new("the host's arguments are not valid").into());
            };
            let (opened, said) = open(kinds, name, config, timeout)?;
            *instance = Box::into_raw(Box::new(opened)).cast();
            *facts = said;
            Ok(())
        })
    }
}

fn open(
    kinds: &[TransportKind],
    name: &str,
    config: &str,
    timeout: f64,
) -> std::result::Result<(Instance, RString), Refused> {
    let kind = kinds.iter().find(|kind| kind.name == name);
    let kind = kind.ok_or_else(|| Refused {
        status: Status::NO_SUCH_KIND,
        error: HookError::new(format_args!("no transport `{name}` here")),
    })?;
    let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
    let mut transport = (kind.open)(config, timeout)?;
    let facts = transport.facts()?;
    if facts.rank >= facts.size || facts.hosts.len() != facts.size {
        return Err(HookError::new("the transport's facts contradict each other").into());
    }
    let said = serde_json::to_string(&facts).map_err(HookError::from)?;
    let size = facts.size;
    Ok((Instance { transport, size }, said.into()))
}

/// Converts an `instance` pointer to a reference.
///
/// # Safety
///
/// `instance` must come from `open`, not have been closed, and not be in use.
unsafe fn instance<'a>(instance: *mut c_void) -> &'a mut Instance {
    // SAFETY: the caller guarantees a live instance that is not in use.
    unsafe { &mut *instance.cast::<Instance>() }
}

/// The `length` bytes at `data`.
///
/// # Safety
///
/// If `length` is not 0, that many bytes at `data` must be readable and unchanged for `'a`.
unsafe fn bytes<'a>(data: *const u8, length: u64) -> Result<&'a [u8]> {
    match checked(data, length)? {
        0 => Ok(&[]),
        // SAFETY: the pointer is not null and the length is within the limit of a slice; the caller guarantees the rest.
        length => Ok(unsafe { slice::from_raw_parts(data, length) }),
    }
}

/// The `length` bytes at `data`, to be written.
///
/// # Safety
///
/// If `length` is not 0, that many bytes at `data` must be readable and writable, and not otherwise in use for `'a`.
unsafe fn bytes_mut<'a>(data: *mut u8, length: u64) -> Result<&'a mut [u8]> {
    match checked(data, length)? {
        0 => Ok(&mut []),
        // SAFETY: the pointer is not null and the length is within the limit of a slice; the caller guarantees the rest.
        length => Ok(unsafe { slice::from_raw_parts_mut(data, length) }),
    }
}

/// The length, if it is possible for a slice at `data`.
fn checked(data: *const u8, length: u64) -> Result<usize> {
    match usize::try_from(length) {
        Ok(0) => Ok(0),
        Ok(length) if !data.is_null() && isize::try_from(length).is_ok() => Ok(length),
        _ => Err(HookError::new("the host passed bytes that can't be there")),
    }
}

/// A list of offsets, one more than there are ranks, and the last of them: the length of the data.
///
/// # Safety
///
/// `size + 1` offsets at `at` must be readable and unchanged for `'a`, unless it is null.
unsafe fn offsets<'a>(at: *const u64, size: usize) -> Result<(&'a [u64], u64)> {
    let wrong = || HookError::new("the host passed offsets that are not in order");
    if at.is_null() {
        return Err(wrong());
    }
    // SAFETY: the pointer is not null, and the caller guarantees as many elements.
    let at = unsafe { slice::from_raw_parts(at, size + 1) };
    match at {
        [0, .., end] if at.is_sorted() => Ok((at, *end)),
        _ => Err(wrong()),
    }
}

unsafe extern "C" fn broadcast(
    pointer: *mut c_void,
    data: *mut u8,
    length: u64,
    root: u64,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the host passes the instance that `open` made, in one call at a time, and lends data and error for it.
    unsafe {
        let Instance { transport, size } = instance(pointer);
        fence(error, || {
            let root = usize::try_from(root).ok().filter(|root| root < size);
            let root = root.ok_or_else(|| HookError::new("there is no such rank"))?;
            transport.broadcast(bytes_mut(data, length)?, root)
        })
    }
}

unsafe extern "C" fn gather(
    pointer: *mut c_void,
    own: *const u8,
    length: u64,
    all: *mut u8,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: as for `broadcast`; `all` has room for every rank's bytes and overlaps nothing.
    unsafe {
        let Instance { transport, size } = instance(pointer);
        fence(error, || {
            let total = length.saturating_mul(*size as u64);
            transport.gather(bytes(own, length)?, bytes_mut(all, total)?)
        })
    }
}

unsafe extern "C" fn exchange(
    pointer: *mut c_void,
    send: *const u8,
    send_at: *const u64,
    receive: *mut u8,
    receive_at: *const u64,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: as for `broadcast`; the data is as long as the offsets say, and the two don't overlap.
    unsafe {
        let Instance { transport, size } = instance(pointer);
        fence(error, || {
            let (at, length) = offsets(send_at, *size)?;
            let data = bytes(send, length)?;
            let (receive_at, length) = offsets(receive_at, *size)?;
            let receive = bytes_mut(receive, length)?;
            transport.exchange(Outgoing { data, at }, receive, receive_at)
        })
    }
}

unsafe extern "C" fn collect(
    pointer: *mut c_void,
    data: *mut u8,
    at: *const u64,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: as for `broadcast`; the data is as long as the offsets say.
    unsafe {
        let Instance { transport, size } = instance(pointer);
        fence(error, || {
            let (at, length) = offsets(at, *size)?;
            transport.collect(bytes_mut(data, length)?, at)
        })
    }
}

unsafe extern "C" fn abort(pointer: *mut c_void, code: u32) {
    // SAFETY: as for `broadcast`; no error is written.
    unsafe {
        let Instance { transport, .. } = instance(pointer);
        fence(std::ptr::null_mut(), || {
            transport.abort(u8::try_from(code).unwrap_or(u8::MAX));
            Ok(())
        });
    }
}

unsafe extern "C" fn close(pointer: *mut c_void, error: *mut ErrorAbi) -> u32 {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: the host calls this once, with the pointer that `open` made from such a box.
    unsafe {
        fence(error, || {
            drop(Box::from_raw(pointer.cast::<Instance>()));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_bytes_that_cannot_be_are_refused() {
        // SAFETY: the lists are as long as the size says, and no bytes are read at the pointers.
        unsafe {
            assert_eq!(
                offsets([0, 2, 2, 5].as_ptr(), 3).map_or(0, |(_, end)| end),
                5
            );
            for wrong in [[1, 2, 2, 5], [0, 3, 2, 5]] {
                assert!(offsets(wrong.as_ptr(), 3).is_err(), "{wrong:?}");
            }
            assert!(offsets(std::ptr::null(), 3).is_err());
            assert!(bytes(std::ptr::null(), 1).is_err());
            assert!(bytes(std::ptr::dangling(), u64::MAX).is_err());
            assert!(bytes_mut(std::ptr::null_mut(), 0).is_ok_and(|bytes| bytes.is_empty()));
        }
    }

    /// A run of one process.
    struct Alone;

    impl Transport for Alone {
        const NAME: &'static str = "alone";
        const ABOUT: &'static str = "One process.";

        fn open(config: &str, _timeout: Duration) -> Result<Self> {
            match config {
                "panic" => panic!("as asked"),
                _ => Ok(Alone),
            }
        }

        fn facts(&mut self) -> Result<TransportFacts> {
            Ok(TransportFacts {
                rank: 0,
                size: 1,
                hosts: vec!["here".to_owned()],
                about: "nothing".to_owned(),
            })
        }

        fn broadcast(&mut self, data: &mut [u8], _root: usize) -> Result<()> {
            data.fill(7);
            Ok(())
        }

        fn gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<()> {
            all.copy_from_slice(own);
            Ok(())
        }

        fn exchange(
            &mut self,
            send: &[u8],
            _send_at: &[u64],
            receive: &mut [u8],
            _receive_at: &[u64],
        ) -> Result<()> {
            receive.copy_from_slice(send);
            Ok(())
        }

        fn collect(&mut self, data: &mut [u8], at: &[u64]) -> Result<()> {
            assert_eq!(at, [0, data.len() as u64]);
            Err(HookError::new("rank 0 is gone"))
        }

        fn abort(&mut self, _code: u8) {}
    }

    static KINDS: &[TransportKind] = &[transport_kind::<Alone>()];

    unsafe extern "C" fn open_alone(
        name: TextAbi,
        config: TextAbi,
        timeout: f64,
        instance: *mut *mut c_void,
        facts: *mut RString,
        error: *mut ErrorAbi,
    ) -> u32 {
        // SAFETY: the tests below lend valid pointers.
        unsafe { open_from(KINDS, name, config, timeout, instance, facts, error) }
    }

    static TABLE: TransportTable = transport_table(open_alone);

    #[test]
    fn calls_reach_the_authors_type_and_errors_and_panics_come_back() {
        let mut error = ErrorAbi::new();
        let mut facts = RString::new();
        let mut instance: *mut c_void = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the calls, and lengths are those of the data.
        unsafe {
            let mut open = |name, config| {
                let (name, config) = (TextAbi::new(name), TextAbi::new(config));
                let error = &raw mut error;
                (TABLE.open)(name, config, 1.0, &raw mut instance, &raw mut facts, error)
            };
            assert_eq!(open("other", "{}"), Status::NO_SUCH_KIND.0);
            assert_eq!(open("alone", "panic"), Status::PANIC.0);
            assert_eq!(open("alone", "{}"), Status::OK.0);
            assert!(facts.contains(r#""hosts":["here"]"#), "{facts}");

            let (mut data, mut all) = ([1_u8, 2], [0_u8; 2]);
            let none = std::ptr::null_mut();
            let status = (TABLE.gather)(instance, data.as_ptr(), 2, all.as_mut_ptr(), none);
            assert_eq!((status, all), (0, [1, 2]));
            let at = [0_u64, 2];
            let (send, receive) = (data.as_ptr(), all.as_mut_ptr());
            let status = (TABLE.exchange)(instance, send, at.as_ptr(), receive, at.as_ptr(), none);
            assert_eq!(status, 0);
            let status = (TABLE.broadcast)(instance, data.as_mut_ptr(), 2, 0, none);
            assert_eq!((status, data), (0, [7, 7]));
            let status = (TABLE.broadcast)(instance, data.as_mut_ptr(), 2, 1, none);
            assert_eq!(status, Status::ERROR.0, "there is one rank");
            let error = &raw mut error;
            let status = (TABLE.collect)(instance, data.as_mut_ptr(), at.as_ptr(), error);
            assert_eq!(status, Status::ERROR.0);
            assert_eq!((*error).message, "rank 0 is gone");
            (TABLE.abort)(instance, 3);
            assert_eq!((TABLE.close)(instance, error), 0);
        }
    }

    #[test]
    fn only_plugins_with_transports_have_the_table() {
        // SAFETY: the texts are literals.
        unsafe {
            let asked = |kinds, id| query_transports(kinds, &TABLE, TextAbi::new(id)).is_null();
            assert!(!asked(KINDS, "sconce.transport/1"));
            assert!(asked(KINDS, "sconce.transport/2"));
            assert!(asked(&[], "sconce.transport/1"));
        }
    }
}
