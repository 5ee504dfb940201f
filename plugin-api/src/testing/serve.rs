//! What the hook has asked for, served as a host serves it: once its call is over.

use super::checkpoint::from_set;
use super::drive::{Drive, Stopped};
use super::stage::Pending;
use crate::ext::Request;

impl Drive<'_> {
    pub(super) fn serve(&mut self) -> Result<(), Stopped> {
        let asked = std::mem::take(&mut *self.stage.pending.borrow_mut());
        for one in asked {
            if one.request == Request::ListenAtModules {
                self.listens = one.number > 0.0;
            } else if !self.is_resuming {
                self.serve_one(&one)?;
            }
        }
        Ok(())
    }

    fn serve_one(&mut self, asked: &Pending) -> Result<(), Stopped> {
        let text = asked.text.as_str();
        let (first, rest) = match text.split_once('/') {
            Some((first, rest)) => (first, Some(rest)),
            None => (text, None),
        };
        match asked.request {
            Request::SaveCheckpoint | Request::SaveInBackground => {
                if self.is_evaluating && asked.number <= 0.0 {
                    // In its midst it would know half of the validation.
                    if !self.waiting.iter().any(|known| known == text) {
                        self.waiting.push(text.to_owned());
                    }
                    return Ok(());
                }
                self.save(text, asked.number > 0.0)
            }
            Request::Validate => {
                let was = std::mem::replace(&mut self.is_asked_for, true);
                let result = self.validate(false);
                self.is_asked_for = was;
                result
            }
            Request::RollBack => self.roll_back(text),
            Request::SwapParameters => self.swap(text),
            Request::SwapBack => self.swap_back(),
            Request::LoadParameters => {
                let checkpoint = self.checkpoint(first, "load the parameters of")?;
                let tensors = checkpoint.set(rest).map_err(|text| self.blame(&text))?;
                *self.stage.parameters.borrow_mut() = tensors;
                Ok(())
            }
            Request::DeleteCheckpoint => {
                self.checkpoints.remove(text);
                Ok(())
            }
            Request::CopyCheckpoint => {
                let checkpoint = self.checkpoint(first, "copy")?;
                self.checkpoints
                    .insert(rest.unwrap_or_default().to_owned(), checkpoint);
                Ok(())
            }
            Request::PublishWeights => {
                let checkpoint = self.checkpoint(first, "publish")?;
                let set = rest
                    .and_then(|rest| rest.split_once('/'))
                    .map(|(_, set)| set);
                checkpoint
                    .set(set)
                    .map(drop)
                    .map_err(|text| self.blame(&text))
            }
            Request::Freeze => {
                self.shares.insert(text.to_owned(), asked.number);
                Ok(())
            }
            Request::RenewStatistics => {
                if self
                    .stage
                    .parameters
                    .borrow()
                    .iter()
                    .any(|tensor| tensor.is_buffer)
                {
                    return Ok(());
                }
                Err(self.blame("can't renew statistics: the model has no buffers"))
            }
            // These hold at once, without the loop.
            _ => Ok(()),
        }
    }

    fn swap(&mut self, set: &str) -> Result<(), Stopped> {
        if let Some((known, _)) = &self.swapped {
            return Err(self.blame(&format!("can't swap `{set}` in: `{known}` is still there")));
        }
        let real = self.stage.parameters.borrow().clone();
        let found = from_set(&self.stage.values.borrow(), set, &real);
        let tensors = found.map_err(|text| self.blame(&text))?;
        *self.stage.parameters.borrow_mut() = tensors;
        self.swapped = Some((set.to_owned(), real));
        Ok(())
    }

    fn swap_back(&mut self) -> Result<(), Stopped> {
        let Some((_, real)) = self.swapped.take() else {
            return Err(self.blame("can't swap back: nothing is swapped"));
        };
        *self.stage.parameters.borrow_mut() = real;
        Ok(())
    }
}
