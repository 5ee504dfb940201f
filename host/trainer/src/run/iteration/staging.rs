//! The batches of a pass on the device that computes.
//!
//! While the device works on a batch, the next one is copied there: when a batch is handed out, the copy of the one after
//! it has begun. On the CPU batches are handed out as they are loaded.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use candle_core::{Device, Result, bail};

use crate::data::{Batch, DataError, Loader};
use crate::nn::ops::device::remember_origin;
use crate::nn::ops::device::transfer::{Upload, Uploader};

/// Uploaders that no pass uses at the moment: their memory serves the next one.
pub(in crate::run) type IdleUploaders = Rc<RefCell<Vec<Uploader>>>;

/// The batches of a pass.
pub(in crate::run) struct Staging {
    loader: Loader,
    copies: Option<Copies>,
}

/// Copies of batches to a device.
struct Copies {
    /// Present until it is dropped.
    uploader: Option<Uploader>,
    idle: IdleUploaders,
    /// Batches whose copies have begun, in order, or the error of one that could not be loaded.
    begun: VecDeque<std::result::Result<(Batch, Upload), DataError>>,
}

/// Why there is no next batch.
pub(in crate::run) enum StagingError {
    /// It can't be loaded.
    Data(DataError),
    /// It can't be copied to the device.
    Copy(candle_core::Error),
}

impl Staging {
    /// Hands out the batches of `loader` on `device`.
    pub(in crate::run) fn new(
        loader: Loader,
        device: &Device,
        idle: &IdleUploaders,
    ) -> Result<Staging> {
        let known = if device.is_cpu() {
            None
        } else {
            idle.borrow_mut().pop()
        };
        let uploader = match known {
            Some(uploader) => Some(uploader),
            None => Uploader::new(device)?,
        };
        let copies = uploader.map(|uploader| Copies {
            uploader: Some(uploader),
            idle: Rc::clone(idle),
            begun: VecDeque::new(),
        });
        Ok(Staging { loader, copies })
    }

    /// The next batch; `None` at the end.
    pub(in crate::run) fn next_batch(
        &mut self,
    ) -> std::result::Result<Option<Batch>, StagingError> {
        let Some(copies) = &mut self.copies else {
            let batch = self.loader.next_batch().transpose();
            return batch.map_err(StagingError::Data);
        };
        while copies.begun.len() < 2 {
            let Some(batch) = self.loader.next_batch() else {
                break;
            };
            copies.begin(batch).map_err(StagingError::Copy)?;
        }
        match copies.begun.pop_front() {
            None => Ok(None),
            Some(Err(error)) => Err(StagingError::Data(error)),
            Some(Ok((batch, upload))) => {
                let finished = copies.finish(batch, upload);
                finished.map(Some).map_err(StagingError::Copy)
            }
        }
    }
}

impl Copies {
    fn begin(&mut self, batch: std::result::Result<Batch, DataError>) -> Result<()> {
        let begun = match (batch, &mut self.uploader) {
            (Ok(batch), Some(uploader)) => {
                let mut tensors = vec![&batch.inputs, &batch.targets];
                tensors.extend(batch.further_inputs.iter().chain(batch.named.values()));
                let upload = uploader.begin(&tensors)?;
                Ok((batch, upload))
            }
            (Ok(_), None) => bail!("batches are copied to the device after the end of their pass"),
            (Err(error), _) => Err(error),
        };
        self.begun.push_back(begun);
        Ok(())
    }

    fn finish(&mut self, batch: Batch, upload: Upload) -> Result<Batch> {
        let copied = self
            .uploader
            .as_mut()
            .map(|uploader| uploader.finish(upload));
        let mut copied = copied.transpose()?.unwrap_or_default().into_iter();
        let (Some(inputs), Some(targets)) = (copied.next(), copied.next()) else {
            bail!("a batch's copy on the device lacks its two tensors");
        };
        let further_inputs = copied.by_ref().take(batch.further_inputs.len()).collect();
        let named = batch.named.keys().cloned().zip(copied).collect();
        // Losses and metrics that look at targets on the host don't wait for the device.
        remember_origin(&targets, &batch.targets);
        Ok(Batch {
            inputs,
            further_inputs,
            targets,
            named: Arc::new(named),
            ..batch
        })
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        self.idle.borrow_mut().extend(self.uploader.take());
    }
}
