//! The functions of `shim.h`, made safe.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use sconce_plugin_api::{HookError, Result, bail};

/// Bytes for a machine's name, with a zero at the end; longer ones are cut.
const HOST: u16 = 256;

/// Bytes for texts of MPI's; longer ones are cut.
const TEXT: u16 = 1024;

unsafe extern "C" {
    fn sconce_mpi_open(
        rank: *mut c_int,
        size: *mut c_int,
        owns: *mut c_int,
        serialized: *mut c_int,
    ) -> c_int;
    fn sconce_mpi_close(owns: c_int) -> c_int;
    fn sconce_mpi_library(text: *mut c_char, capacity: c_int, length: *mut c_int) -> c_int;
    fn sconce_mpi_hosts(names: *mut c_char, capacity: c_int) -> c_int;
    fn sconce_mpi_describe(
        code: c_int,
        text: *mut c_char,
        capacity: c_int,
        length: *mut c_int,
    ) -> c_int;
    fn sconce_mpi_broadcast(data: *mut u8, length: u64, root: c_int) -> c_int;
    fn sconce_mpi_gather(own: *const u8, length: u64, all: *mut u8) -> c_int;
    fn sconce_mpi_exchange(
        send: *const u8,
        send_at: *const u64,
        receive: *mut u8,
        receive_at: *const u64,
    ) -> c_int;
    fn sconce_mpi_collect(data: *mut u8, at: *const u64) -> c_int;
    fn sconce_mpi_abort(code: c_int);
}

/// MPI can be started once in a process.
static IS_STARTED: AtomicBool = AtomicBool::new(false);

/// A started MPI. Dropping it ends it, unless a call has failed: the end waits for all ranks.
pub(crate) struct Mpi {
    rank: usize,
    size: usize,
    /// Whether MPI was started here, rather than by something else in this process.
    owns: c_int,
    has_failed: bool,
}

impl Mpi {
    /// Starts MPI.
    pub(crate) fn start() -> Result<Mpi> {
        if IS_STARTED.swap(true, Ordering::SeqCst) {
            bail!("MPI can be started once in a process");
        }
        let (mut rank, mut size, mut owns, mut serialized) = (0, 0, 0, 0);
        // SAFETY: all pointers are valid for the call.
        let code = unsafe {
            sconce_mpi_open(
                &raw mut rank,
                &raw mut size,
                &raw mut owns,
                &raw mut serialized,
            )
        };
        check(code)?;
        let (Ok(rank), Ok(size)) = (usize::try_from(rank), usize::try_from(size)) else {
            bail!("MPI says that this is rank {rank} of {size}");
        };
        let mpi = Mpi {
            rank,
            size,
            owns,
            has_failed: false,
        };
        if serialized == 0 {
            bail!("this MPI can't be called from more than one thread (MPI_THREAD_SERIALIZED)");
        }
        Ok(mpi)
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// What the MPI says it is.
    pub(crate) fn library() -> Result<String> {
        text(|text, capacity, length| {
            // SAFETY: `capacity` bytes at `text` can be written, and all pointers are valid for the call.
            unsafe { sconce_mpi_library(text, capacity, length) }
        })
    }

    /// The machine of each rank.
    pub(crate) fn hosts(&mut self) -> Result<Vec<String>> {
        let mut names = vec![0_u8; self.size * usize::from(HOST)];
        // SAFETY: `names` has `HOST` bytes for every rank.
        let code = unsafe { sconce_mpi_hosts(names.as_mut_ptr().cast(), c_int::from(HOST)) };
        self.keep(code)?;
        let name = |slot: &[u8]| {
            let name = slot.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        Ok(names.chunks_exact(HOST.into()).map(name).collect())
    }

    pub(crate) fn broadcast_bytes(&mut self, data: &mut [u8], root: usize) -> Result<()> {
        self.checked(root < self.size)?;
        let root = c_int::try_from(root)?;
        // SAFETY: pointer and length are the data's.
        let code = unsafe { sconce_mpi_broadcast(data.as_mut_ptr(), data.len() as u64, root) };
        self.keep(code)
    }

    pub(crate) fn gather_bytes(&mut self, own: &[u8], all: &mut [u8]) -> Result<()> {
        self.checked(own.len().checked_mul(self.size) == Some(all.len()))?;
        // SAFETY: `all` has room for the bytes of all ranks.
        let code = unsafe { sconce_mpi_gather(own.as_ptr(), own.len() as u64, all.as_mut_ptr()) };
        self.keep(code)
    }

    pub(crate) fn exchange_bytes(
        &mut self,
        (send, send_at): (&[u8], &[u64]),
        (receive, receive_at): (&mut [u8], &[u64]),
    ) -> Result<()> {
        let fits = self.fits(send_at, send.len()) && self.fits(receive_at, receive.len());
        self.checked(fits)?;
        // SAFETY: the offsets are one more than there are ranks, in order, and within the data.
        let code = unsafe {
            sconce_mpi_exchange(
                send.as_ptr(),
                send_at.as_ptr(),
                receive.as_mut_ptr(),
                receive_at.as_ptr(),
            )
        };
        self.keep(code)
    }

    pub(crate) fn collect_bytes(&mut self, data: &mut [u8], at: &[u64]) -> Result<()> {
        self.checked(self.fits(at, data.len()))?;
        // SAFETY: as for `exchange_bytes`.
        let code = unsafe { sconce_mpi_collect(data.as_mut_ptr(), at.as_ptr()) };
        self.keep(code)
    }

    /// Ends all processes of the launcher, this one among them.
    pub(crate) fn end_all(&mut self, code: u8) {
        self.has_failed = true;
        // SAFETY: MPI is started.
        unsafe { sconce_mpi_abort(c_int::from(code)) }
    }

    fn fits(&self, at: &[u64], length: usize) -> bool {
        let ends = (at.first(), at.last()) == (Some(&0), Some(&(length as u64)));
        ends && at.len() == self.size + 1 && at.is_sorted()
    }

    fn checked(&self, fits: bool) -> Result<()> {
        if !fits {
            bail!("rank {}: the lengths of a call do not fit", self.rank);
        }
        Ok(())
    }

    /// Converts a code, and remembers a failure.
    fn keep(&mut self, code: c_int) -> Result<()> {
        let result = check(code);
        self.has_failed |= result.is_err();
        result
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if !self.has_failed {
            // SAFETY: MPI is started, and nothing calls it any more. If its end fails, that changes nothing.
            unsafe { sconce_mpi_close(self.owns) };
        }
    }
}

/// The result of a call that returned this code.
fn check(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let described = text(|text, capacity, length| {
        // SAFETY: `capacity` bytes at `text` can be written, and all pointers are valid for the call.
        unsafe { sconce_mpi_describe(code, text, capacity, length) }
    });
    let described = described.unwrap_or_else(|_| format!("error {code}"));
    Err(HookError::new(format_args!("MPI: {}", described.trim())))
}

/// The text that a function writes.
fn text(write: impl FnOnce(*mut c_char, c_int, *mut c_int) -> c_int) -> Result<String> {
    let mut bytes = vec![0_u8; TEXT.into()];
    let mut length = 0;
    let code = write(
        bytes.as_mut_ptr().cast(),
        c_int::from(TEXT),
        &raw mut length,
    );
    if code != 0 {
        bail!("MPI: error {code}");
    }
    bytes.truncate(usize::try_from(length).unwrap_or(0));
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
