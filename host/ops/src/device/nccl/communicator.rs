//! Communicators of NVIDIA GPUs.
#![expect(unsafe_code, reason = "NCCL is given addresses and a stream")]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::thread;
use std::time::Duration;

use candle_core::cuda_backend::CudaDevice;
use candle_core::cuda_backend::cudarc::driver::{DriverError, result};
use candle_core::{Device, Tensor};

use super::functions::{Functions, RawCommunicator, RawId};
use super::{NcclError, UniqueId};
use crate::device::fetch::waiting;
use crate::device_address;

/// How often a rank that waits looks whether it is done: a sum takes many times as long.
const LOOK: Duration = Duration::from_micros(20);

const CONNECTING: &str = "connect the GPUs of all ranks by NCCL";
const EXCHANGING: &str = "exchange gradients between GPUs";
const COLLECTING: &str = "collect the sums of gradients from all GPUs";
const WAITING: &str = "sum gradients between GPUs";

pub(super) fn version(device: &Device) -> Result<String, NcclError> {
    if !matches!(device, Device::Cuda(_)) {
        return Err(NcclError::NoGpu);
    }
    if crate::choice::is_requested() {
        return Err(NcclError::NoKernels);
    }
    installed()
}

pub(super) fn installed() -> Result<String, NcclError> {
    Functions::open()?.version()
}

pub(super) fn gpu_id(device: &Device) -> Option<[u8; 16]> {
    let Device::Cuda(device) = device else {
        return None;
    };
    let id = device.cuda_stream().context().uuid().ok()?;
    Some(id.bytes.map(|byte| byte.to_ne_bytes()[0]))
}

pub(super) fn unique_id() -> Result<[u8; UniqueId::SIZE], NcclError> {
    Ok(Functions::open()?.unique_id()?.0)
}

pub(super) struct Communicator {
    functions: &'static Functions,
    /// Null once it has been ended.
    raw: RawCommunicator,
    device: CudaDevice,
    rank: usize,
    size: usize,
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Communicator { rank, size, .. } = self;
        write!(f, "Communicator {{ rank: {rank}, size: {size} }}")
    }
}

impl Communicator {
    pub(super) fn connect(
        device: &Device,
        id: &[u8; UniqueId::SIZE],
        rank: usize,
        size: usize,
    ) -> Result<Communicator, NcclError> {
        let Device::Cuda(device) = device else {
            return Err(NcclError::NoGpu);
        };
        let functions = Functions::open()?;
        // NCCL takes the device whose context is current.
        let stream = device.cuda_stream();
        let bound = stream.context().bind_to_thread();
        bound.map_err(of_driver(CONNECTING))?;
        let raw = functions.connect(RawId(*id), number(rank)?, number(size)?)?;
        Ok(Communicator {
            functions,
            raw,
            device: device.clone(),
            rank,
            size,
        })
    }

    pub(super) fn exchange(
        &self,
        (send, send_at): (&Tensor, &[usize]),
        (receive, receive_at): (&Tensor, &[usize]),
    ) -> Result<(), NcclError> {
        let outgoing = self.parts(send, send_at, EXCHANGING)?;
        let incoming = self.parts(receive, receive_at, EXCHANGING)?;
        if let (Some(from), Some(to)) = (outgoing.get(self.rank), incoming.get(self.rank)) {
            self.copy(*from, *to)?;
        }
        self.group(EXCHANGING, || {
            for (peer, part) in self.others(&outgoing) {
                self.send(EXCHANGING, part, peer)?;
            }
            for (peer, part) in self.others(&incoming) {
                self.receive(EXCHANGING, part, peer)?;
            }
            Ok(())
        })
    }

    pub(super) fn collect(&self, data: &Tensor, at: &[usize]) -> Result<(), NcclError> {
        let parts = self.parts(data, at, COLLECTING)?;
        let Some(&own) = parts.get(self.rank) else {
            return Ok(());
        };
        self.group(COLLECTING, || {
            let to_each = vec![own; self.size];
            for (peer, part) in self.others(&to_each) {
                self.send(COLLECTING, part, peer)?;
            }
            for (peer, part) in self.others(&parts) {
                self.receive(COLLECTING, part, peer)?;
            }
            Ok(())
        })
    }

    pub(super) fn wait(&self) -> Result<(), NcclError> {
        let stream = self.device.cuda_stream();
        let queued = stream.record_event(None).map_err(of_driver(WAITING))?;
        waiting(|| {
            loop {
                let is_done = queued.try_is_complete();
                // What NCCL says comes first: it is the cause of what the driver then says.
                if !self.raw.is_null() {
                    // SAFETY: the communicator has not been ended.
                    unsafe { self.functions.check_async(WAITING, self.raw)? };
                }
                if is_done.map_err(of_driver(WAITING))? {
                    return Ok(());
                }
                thread::sleep(LOOK);
            }
        })
    }

    pub(super) fn abort(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: the communicator has not been ended, and is forgotten here.
            unsafe { self.functions.abort(self.raw) };
            self.raw = std::ptr::null_mut();
        }
    }

    /// The address and the bytes of each rank's part of a tensor.
    fn parts(
        &self,
        tensor: &Tensor,
        at: &[usize],
        action: &'static str,
    ) -> Result<Vec<(*mut c_void, usize)>, NcclError> {
        let failed = |reason: String| NcclError::Failed { action, reason };
        let is_right = at.len() == self.size + 1
            && at.is_sorted()
            && at.last().is_some_and(|&end| end <= tensor.elem_count())
            && tensor.is_contiguous()
            && tensor
                .device()
                .same_device(&Device::Cuda(self.device.clone()));
        if !is_right {
            let count = tensor.elem_count();
            return Err(failed(format!(
                "{} ranks' parts of a tensor of {count} elements don't fit it: {at:?}",
                self.size
            )));
        }
        let address = device_address::address(tensor).map_err(|error| failed(error.to_string()))?;
        let size = tensor.dtype().size_in_bytes();
        let parts = at.windows(2).map(|part| {
            let first = address.wrapping_byte_add(part[0] * size);
            (first, (part[1] - part[0]) * size)
        });
        Ok(parts.collect())
    }

    /// The parts of the other ranks that have any bytes, with their numbers.
    fn others<'a>(
        &self,
        parts: &'a [(*mut c_void, usize)],
    ) -> impl Iterator<Item = (c_int, (*mut c_void, usize))> + 'a {
        let own = self.rank;
        let parts = parts.iter().enumerate();
        parts
            .filter(move |(rank, (_, bytes))| *rank != own && *bytes > 0)
            .filter_map(|(rank, part)| Some((c_int::try_from(rank).ok()?, *part)))
    }

    /// Makes calls of NCCL as a group, with this device current.
    fn group(
        &self,
        action: &'static str,
        calls: impl FnOnce() -> Result<(), NcclError>,
    ) -> Result<(), NcclError> {
        if self.raw.is_null() {
            return Err(NcclError::Failed {
                action,
                reason: "the connection has ended after an error".to_owned(),
            });
        }
        let stream = self.device.cuda_stream();
        let bound = stream.context().bind_to_thread();
        bound.map_err(of_driver(action))?;
        self.functions.group(action, calls)
    }

    fn send(
        &self,
        action: &'static str,
        (from, bytes): (*mut c_void, usize),
        peer: c_int,
    ) -> Result<(), NcclError> {
        let stream = self.device.cuda_stream().cu_stream().cast();
        // SAFETY: only `group` has this called, where the communicator has not been ended; `parts` has checked that the bytes
        // are a tensor's on this device, and all work on tensors is in the order of this one stream.
        unsafe {
            let from = (from.cast_const(), bytes);
            self.functions.send(action, from, peer, self.raw, stream)
        }
    }

    fn receive(
        &self,
        action: &'static str,
        to: (*mut c_void, usize),
        peer: c_int,
    ) -> Result<(), NcclError> {
        let stream = self.device.cuda_stream().cu_stream().cast();
        // SAFETY: as for `send`.
        unsafe { self.functions.receive(action, to, peer, self.raw, stream) }
    }

    /// Copies this rank's part for itself.
    fn copy(
        &self,
        (from, bytes): (*mut c_void, usize),
        (to, room): (*mut c_void, usize),
    ) -> Result<(), NcclError> {
        if bytes != room {
            return Err(NcclError::Failed {
                action: EXCHANGING,
                reason: format!("a rank sends itself {bytes} bytes and expects {room}"),
            });
        }
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.device.cuda_stream();
        let bound = stream.context().bind_to_thread();
        bound.map_err(of_driver(EXCHANGING))?;
        let (from, to) = (from.addr() as u64, to.addr() as u64);
        // SAFETY: `parts` has checked that both are tensors' bytes on this device, whose work is in the order of this stream.
        let copied = unsafe { result::memcpy_dtod_async(to, from, bytes, stream.cu_stream()) };
        copied.map_err(of_driver(EXCHANGING))
    }
}

impl Drop for Communicator {
    /// Doesn't wait for other ranks, which may be gone: what this one has queued has been waited for, and nothing is lost.
    fn drop(&mut self) {
        self.abort();
    }
}

fn number(count: usize) -> Result<c_int, NcclError> {
    c_int::try_from(count).map_err(|error| NcclError::Failed {
        action: CONNECTING,
        reason: error.to_string(),
    })
}

fn of_driver(action: &'static str) -> impl Fn(DriverError) -> NcclError {
    move |error| NcclError::Failed {
        action,
        reason: error.to_string(),
    }
}
