//! Serves what hooks request of a loop: by the host itself, or by the loop's `Loop`.

use std::path::Path;
use std::time::Instant;

use sconce_lifecycle::Place;
use sconce_plugin_api::Point;
use sconce_plugin_api::ext::{Asked, Request, serving_order};

use super::LoopHooks;
use crate::host::error::{HostError, HostResult};
use crate::host::requests::{Loop, Served};
use crate::host::swap::{Swapped, exchange};

impl LoopHooks<'_> {
    #[cold]
    pub(super) fn serve_pending(&mut self) -> HostResult {
        let mut asked = self.shared.requests.take_asked();
        serving_order(&mut asked, |(asked, _)| asked);
        for (asked, hook) in asked {
            let (what, served) = self.serve_one(asked, &hook)?;
            if let Err(reason) = served {
                self.blame(&hook, &format!("can't {what}: {reason}"))?;
            }
        }
        Ok(())
    }

    /// Serves a request; returns what it was, and whether it was served.
    fn serve_one(&mut self, asked: Asked, hook: &str) -> HostResult<(String, Served)> {
        if self.followed.position().is_reopening {
            // It was served when the epoch began.
            return Ok((String::new(), Ok(())));
        }
        let unserved = |served: &dyn Loop, request: Request| {
            let refused = served.can(request);
            refused.and_then(|()| Err("the loop says that it can, and does not".to_owned()))
        };
        Ok(match asked {
            Asked::Save { tag, .. } => (format!("save `{tag}`"), self.save(&tag, hook)?),
            Asked::Validate => {
                let served = self.served.validate();
                self.is_validation_asked = served.is_ok();
                ("validate".to_owned(), served)
            }
            Asked::Swap(set) => (
                format!("swap the parameters for `{set}`"),
                self.swap(&set, hook),
            ),
            Asked::SwapBack => ("swap the parameters back".to_owned(), self.swap_back()),
            Asked::LoadParameters { tag, set } => {
                let served = self.served.load_parameters(&tag, set.as_deref());
                (format!("load the parameters of `{tag}`"), served)
            }
            Asked::Delete(tag) => {
                let served = self.served.delete(&tag);
                (format!("delete the checkpoint `{tag}`"), served)
            }
            Asked::Copy { from, to } => {
                let served = self.served.copy(&from, &to);
                (format!("copy the checkpoint `{from}` to `{to}`"), served)
            }
            Asked::Freeze { name, ratio } => {
                let served = self.freeze(&name, ratio);
                (format!("train `{name}` at {ratio} of its rate"), served)
            }
            Asked::Listen(listens) => {
                if let Some(hooks) = &mut self.hooks {
                    hooks.set_listening(hook, listens);
                }
                (String::new(), Ok(()))
            }
            Asked::RollBack(tag) => {
                let refused = unserved(&*self.served, Request::RollBack);
                (format!("roll back to `{tag}`"), refused)
            }
            Asked::Publish { tag, .. } => {
                let refused = unserved(&*self.served, Request::PublishWeights);
                (format!("publish the weights of `{tag}`"), refused)
            }
            Asked::Renew(_) => {
                let refused = unserved(&*self.served, Request::RenewStatistics);
                ("recompute statistics".to_owned(), refused)
            }
            // All others have taken effect already.
            _ => (String::new(), Ok(())),
        })
    }

    fn save(&mut self, tag: &str, hook: &str) -> HostResult<Served> {
        if let Err(reason) = self.served.can(Request::SaveCheckpoint) {
            return Ok(Err(reason));
        }
        let start = Instant::now();
        let states = self.collect(tag, hook)?;
        let written = self.served.save(tag, &states);
        let seconds = start.elapsed().as_secs_f64();
        self.announce_saved((Path::new(tag), tag, hook), &written, seconds)?;
        Ok(written)
    }

    fn swap(&mut self, set: &str, hook: &str) -> Served {
        if let Some(swapped) = &self.swapped {
            return Err(format!(
                "they are swapped for `{}` already, by `{}`",
                swapped.set, swapped.hook
            ));
        }
        exchange(set, &self.shared)?;
        self.swapped = Some(Swapped {
            set: set.to_owned(),
            hook: hook.to_owned(),
        });
        Ok(())
    }

    fn swap_back(&mut self) -> Served {
        match self.swapped.take() {
            Some(swapped) => exchange(&swapped.set, &self.shared),
            None => Err("they are in their place".to_owned()),
        }
    }

    /// Swaps the parameters back if they are swapped, which is the fault of the hook that has asked for it.
    pub(super) fn restore_parameters(&mut self, when: &str) -> HostResult {
        let Some(swapped) = self.swapped.take() else {
            return Ok(());
        };
        exchange(&swapped.set, &self.shared).map_err(HostError::Loop)?;
        if self.followed.place() == Place::Begun {
            return Ok(());
        }
        self.blame(
            &swapped.hook,
            &format!(
                "the parameters are still swapped for `{}` when {when}; ask for `swap_back` at `{}` or before",
                swapped.set,
                Point::AfterCycle
            ),
        )
    }

    fn freeze(&mut self, name: &str, ratio: f64) -> Served {
        let is_whole = ratio == 0.0 || (ratio - 1.0).abs() < f64::EPSILON;
        if !is_whole {
            return Err(
                "a loop of its own has one learning rate for all parameters of a group: only 0 and 1 can be served"
                    .to_owned(),
            );
        }
        if !self.follows.has(Request::Freeze) {
            self.served.can(Request::Freeze)?;
        }
        if ratio == 0.0 {
            self.frozen.insert(name.to_owned());
        } else {
            self.frozen.remove(name);
        }
        Ok(())
    }

    fn blame(&mut self, hook: &str, message: &str) -> HostResult {
        if let Some(hooks) = &mut self.hooks {
            hooks.blame(hook, self.followed.position(), message, &self.shared)?;
        }
        Ok(())
    }
}
