//! Answers of a build without CUDA: there is no GPU to connect.

use std::convert::Infallible;

use candle_core::{Device, Tensor};

use super::{NcclError, UniqueId};

pub(super) fn version(_device: &Device) -> Result<String, NcclError> {
    Err(NcclError::NoGpu)
}

pub(super) fn installed() -> Result<String, NcclError> {
    Err(NcclError::NoGpu)
}

pub(super) fn gpu_id(_device: &Device) -> Option<[u8; 16]> {
    None
}

pub(super) fn unique_id() -> Result<[u8; UniqueId::SIZE], NcclError> {
    Err(NcclError::NoGpu)
}

#[derive(Debug)]
pub(super) struct Communicator(Infallible);

impl Communicator {
    pub(super) fn connect(
        _device: &Device,
        _id: &[u8; UniqueId::SIZE],
        _rank: usize,
        _size: usize,
    ) -> Result<Communicator, NcclError> {
        Err(NcclError::NoGpu)
    }

    pub(super) fn exchange(
        &self,
        _send: (&Tensor, &[usize]),
        _receive: (&Tensor, &[usize]),
    ) -> Result<(), NcclError> {
        match self.0 {}
    }

    pub(super) fn collect(&self, _data: &Tensor, _at: &[usize]) -> Result<(), NcclError> {
        match self.0 {}
    }

    pub(super) fn wait(&self) -> Result<(), NcclError> {
        match self.0 {}
    }

    pub(super) fn abort(&mut self) {
        match self.0 {}
    }
}
