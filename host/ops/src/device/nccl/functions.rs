//! NCCL's functions, found in its library at run time. Their declarations are those of `nccl.h`, the same since version 2.7.
#![expect(unsafe_code, reason = "functions of a foreign library")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;

use super::{NcclError, UniqueId};
use crate::device::libraries;

/// `ncclComm_t`.
pub(super) type RawCommunicator = *mut c_void;

/// `ncclUniqueId`, which is passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawId(pub(super) [u8; UniqueId::SIZE]);

/// `ncclResult_t`; 0 is success.
type Status = c_int;

/// `ncclUint8` of `ncclDataType_t`: what is moved are bytes.
pub(super) const BYTES: c_int = 1;

/// `ncclInProgress`: not an error.
const IN_PROGRESS: Status = 7;

/// The functions that are called here.
pub(super) struct Functions {
    get_version: unsafe extern "C" fn(version: *mut c_int) -> Status,
    get_unique_id: unsafe extern "C" fn(id: *mut RawId) -> Status,
    comm_init_rank: unsafe extern "C" fn(
        communicator: *mut RawCommunicator,
        size: c_int,
        id: RawId,
        rank: c_int,
    ) -> Status,
    comm_abort: unsafe extern "C" fn(communicator: RawCommunicator) -> Status,
    comm_get_async_error:
        unsafe extern "C" fn(communicator: RawCommunicator, error: *mut Status) -> Status,
    group_start: unsafe extern "C" fn() -> Status,
    group_end: unsafe extern "C" fn() -> Status,
    send: unsafe extern "C" fn(
        from: *const c_void,
        count: usize,
        datatype: c_int,
        peer: c_int,
        communicator: RawCommunicator,
        stream: *mut c_void,
    ) -> Status,
    receive: unsafe extern "C" fn(
        to: *mut c_void,
        count: usize,
        datatype: c_int,
        peer: c_int,
        communicator: RawCommunicator,
        stream: *mut c_void,
    ) -> Status,
    get_error_string: unsafe extern "C" fn(status: Status) -> *const c_char,
    /// Never closed.
    _library: Library,
}

impl Functions {
    /// Opens NCCL's library, once per process.
    pub(super) fn open() -> Result<&'static Functions, NcclError> {
        static OPENED: OnceLock<Result<Functions, NcclError>> = OnceLock::new();
        let opened = OPENED.get_or_init(|| {
            let missing = |reason| NcclError::LibraryMissing {
                package: libraries::nccl_package(),
                reason,
            };
            let library = libraries::nccl().map_err(missing)?;
            Functions::of(library).map_err(|error| missing(error.to_string()))
        });
        opened.as_ref().map_err(NcclError::clone)
    }

    fn of(library: Library) -> Result<Functions, libloading::Error> {
        // SAFETY: the functions have these types in NCCL's header.
        unsafe {
            Ok(Functions {
                get_version: *library.get(b"ncclGetVersion\0")?,
                get_unique_id: *library.get(b"ncclGetUniqueId\0")?,
                comm_init_rank: *library.get(b"ncclCommInitRank\0")?,
                comm_abort: *library.get(b"ncclCommAbort\0")?,
                comm_get_async_error: *library.get(b"ncclCommGetAsyncError\0")?,
                group_start: *library.get(b"ncclGroupStart\0")?,
                group_end: *library.get(b"ncclGroupEnd\0")?,
                send: *library.get(b"ncclSend\0")?,
                receive: *library.get(b"ncclRecv\0")?,
                get_error_string: *library.get(b"ncclGetErrorString\0")?,
                _library: library,
            })
        }
    }

    /// The version, such as `2.28.9`.
    pub(super) fn version(&self) -> Result<String, NcclError> {
        let mut number = 0;
        // SAFETY: the function writes one integer.
        let status = unsafe { (self.get_version)(&raw mut number) };
        self.check("ask for NCCL's version", status)?;
        Ok(version_text(number))
    }

    pub(super) fn unique_id(&self) -> Result<RawId, NcclError> {
        let mut id = RawId([0; UniqueId::SIZE]);
        // SAFETY: the function writes one identifier.
        let status = unsafe { (self.get_unique_id)(&raw mut id) };
        self.check("make an identifier for NCCL", status)?;
        Ok(id)
    }

    /// Makes the communicator of this thread's current device, together with all other ranks.
    pub(super) fn connect(
        &self,
        id: RawId,
        rank: c_int,
        size: c_int,
    ) -> Result<RawCommunicator, NcclError> {
        let mut communicator = std::ptr::null_mut();
        // SAFETY: the function writes one handle.
        let status = unsafe { (self.comm_init_rank)(&raw mut communicator, size, id, rank) };
        self.check("connect the GPUs of all ranks by NCCL", status)?;
        Ok(communicator)
    }

    /// Ends a communicator.
    ///
    /// # Safety
    ///
    /// It must be one of [`connect`](Self::connect), and never be used again.
    pub(super) unsafe fn abort(&self, communicator: RawCommunicator) {
        // SAFETY: as the caller promises. Nothing is left to be done about one that can't be ended.
        unsafe { (self.comm_abort)(communicator) };
    }

    /// What has failed since the last call, on this rank or another.
    ///
    /// # Safety
    ///
    /// The communicator must be one of [`connect`](Self::connect), not ended.
    pub(super) unsafe fn check_async(
        &self,
        action: &'static str,
        communicator: RawCommunicator,
    ) -> Result<(), NcclError> {
        let mut error = 0;
        // SAFETY: as the caller promises; the function writes one integer.
        let status = unsafe { (self.comm_get_async_error)(communicator, &raw mut error) };
        self.check(action, status)?;
        if error == IN_PROGRESS {
            return Ok(());
        }
        self.check(action, error)
    }

    /// Makes the sends and receives of `calls` at the same time, in which none waits for another.
    pub(super) fn group(
        &self,
        action: &'static str,
        calls: impl FnOnce() -> Result<(), NcclError>,
    ) -> Result<(), NcclError> {
        // SAFETY: the functions have no preconditions; each start is followed by its end.
        let started = unsafe { (self.group_start)() };
        self.check(action, started)?;
        let called = calls();
        // SAFETY: as above.
        let ended = unsafe { (self.group_end)() };
        called.and_then(|()| self.check(action, ended))
    }

    /// Queues that bytes are sent to a rank.
    ///
    /// # Safety
    ///
    /// The communicator must be one of [`connect`](Self::connect), not ended; the bytes be memory of its device which is
    /// not written to before the stream has passed this call; and the stream be one of that device.
    pub(super) unsafe fn send(
        &self,
        action: &'static str,
        (from, bytes): (*const c_void, usize),
        peer: c_int,
        communicator: RawCommunicator,
        stream: *mut c_void,
    ) -> Result<(), NcclError> {
        // SAFETY: as the caller promises.
        let status = unsafe { (self.send)(from, bytes, BYTES, peer, communicator, stream) };
        self.check(action, status)
    }

    /// Queues that bytes are received from a rank.
    ///
    /// # Safety
    ///
    /// As for [`send`](Self::send); nothing else uses the bytes before the stream has passed this call.
    pub(super) unsafe fn receive(
        &self,
        action: &'static str,
        (to, bytes): (*mut c_void, usize),
        peer: c_int,
        communicator: RawCommunicator,
        stream: *mut c_void,
    ) -> Result<(), NcclError> {
        // SAFETY: as the caller promises.
        let status = unsafe { (self.receive)(to, bytes, BYTES, peer, communicator, stream) };
        self.check(action, status)
    }

    fn check(&self, action: &'static str, status: Status) -> Result<(), NcclError> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number, and returns a text that is never freed.
        let text = unsafe { (self.get_error_string)(status) };
        let reason = if text.is_null() {
            format!("NCCL's result {status}")
        } else {
            // SAFETY: it is not null, and ends with a zero.
            unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()
        };
        Err(NcclError::Failed { action, reason })
    }
}

/// NCCL's number of a version as text: it has two digits for the minor version since 2.9.
fn version_text(number: c_int) -> String {
    let (major, minor) = match number {
        ..10_000 => (number / 1000, number % 1000 / 100),
        _ => (number / 10_000, number % 10_000 / 100),
    };
    format!("{major}.{minor}.{}", number % 100)
}

#[cfg(test)]
mod tests {
    use super::version_text;

    #[test]
    fn versions_are_read_from_their_numbers() {
        assert_eq!(version_text(2708), "2.7.8");
        assert_eq!(version_text(21_805), "2.18.5");
        assert_eq!(version_text(22_809), "2.28.9");
    }
}
