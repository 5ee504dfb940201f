//! Serving the hook's requests after its call, as a host does.

use super::checkpoint::from_set;
use super::drive::{Drive, Leave};
use sconce_lifecycle::validate;
use sconce_plugin_api::ext::{Asked, serving_order};

impl Drive<'_> {
    pub(super) fn serve(&mut self) -> Result<(), Leave> {
        let mut asked = std::mem::take(&mut *self.stage.requests.pending.borrow_mut());
        serving_order(&mut asked, |asked| asked);
        let mut has_rolled_back = false;
        for one in asked {
            if let Asked::Listen(listens) = one {
                self.listens = listens;
            } else if self.position.is_reopening && !matches!(one, Asked::Delete(_)) {
                // It was served in the first segment of the run, to which everything is set back.
            } else if self.resumes_from.is_none() {
                match self.serve_one(one) {
                    // The other requests of this mount point are served first.
                    Err(Leave::RolledBack) => has_rolled_back = true,
                    other => other?,
                }
            }
        }
        if has_rolled_back {
            return Err(Leave::RolledBack);
        }
        Ok(())
    }

    fn serve_one(&mut self, asked: Asked) -> Result<(), Leave> {
        match asked {
            Asked::Save {
                tag,
                parameters_only,
                ..
            } => {
                if self.position.evaluation.is_under_way && !parameters_only {
                    // During a validation it would contain half of it.
                    if !self.waiting.contains(&tag) {
                        self.waiting.push(tag);
                    }
                    return Ok(());
                }
                self.save(&tag, parameters_only)
            }
            Asked::Validate => {
                self.position.evaluation.is_requested = true;
                let result = validate(self, false);
                self.position.evaluation.is_requested = false;
                result
            }
            Asked::RollBack(tag) => self.roll_back(&tag),
            Asked::Swap(set) => self.swap(&set),
            Asked::SwapBack => self.swap_back(),
            Asked::LoadParameters { tag, set } => {
                let checkpoint = self.checkpoint(&tag, "load the parameters of")?;
                let tensors = checkpoint.set(set.as_deref());
                let tensors = tensors.map_err(|text| self.blame(&text))?;
                *self.stage.parameters.borrow_mut() = tensors;
                Ok(())
            }
            Asked::Delete(tag) => {
                self.checkpoints.remove(&tag);
                Ok(())
            }
            Asked::Copy { from, to } => {
                let checkpoint = self.checkpoint(&from, "copy")?;
                self.checkpoints.insert(to, checkpoint);
                Ok(())
            }
            Asked::Publish { tag, set, .. } => {
                let checkpoint = self.checkpoint(&tag, "publish")?;
                let tensors = checkpoint.set(set.as_deref());
                tensors.map(drop).map_err(|text| self.blame(&text))
            }
            Asked::Freeze { name, ratio } => {
                self.shares.insert(name, ratio);
                Ok(())
            }
            Asked::Renew(_) => {
                let parameters = self.stage.parameters.borrow();
                if parameters.iter().any(|tensor| tensor.is_buffer) {
                    return Ok(());
                }
                drop(parameters);
                Err(self.blame("can't renew statistics: the model has no buffers"))
            }
            // They took effect when they were asked for, and are never queued.
            _ => Ok(()),
        }
    }

    fn swap(&mut self, set: &str) -> Result<(), Leave> {
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

    fn swap_back(&mut self) -> Result<(), Leave> {
        let Some((_, real)) = self.swapped.take() else {
            return Err(self.blame("can't swap back: nothing is swapped"));
        };
        *self.stage.parameters.borrow_mut() = real;
        Ok(())
    }
}
