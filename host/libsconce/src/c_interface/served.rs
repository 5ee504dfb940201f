//! The program's functions that serve what hooks request, and take messages.

use std::ffi::{CString, c_char};

use sconce_hooks::host::{Loop, Served};
use sconce_hooks::log::{Level, Log};
use sconce_plugin_api::ext::Request;

use super::types::LoopC;

/// Room for the reason of a refusal, in bytes.
const ROOM: usize = 1024;

/// The functions of `sconce_host_loop`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedByProgram(pub(super) LoopC);

// The program hands them out for calls on whichever thread it makes its own calls on.
impl ServedByProgram {
    /// Calls a function with room for its reason.
    fn ask(call: impl FnOnce(*mut c_char, usize) -> i32) -> Served {
        let mut reason = [0_u8; ROOM];
        if call(reason.as_mut_ptr().cast(), ROOM) == 0 {
            return Ok(());
        }
        let end = reason.iter().position(|byte| *byte == 0).unwrap_or(ROOM);
        let text = String::from_utf8_lossy(reason.get(..end).unwrap_or_default()).into_owned();
        Err(if text.is_empty() {
            "the loop has refused it".to_owned()
        } else {
            text
        })
    }
}

fn c_text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|error| error.to_string())
}

impl Loop for ServedByProgram {
    fn can(&self, request: Request) -> Served {
        let is_served = match request {
            Request::SaveCheckpoint => self.0.save.is_some(),
            Request::LoadParameters => self.0.load_parameters.is_some(),
            Request::DeleteCheckpoint => self.0.delete_checkpoint.is_some(),
            Request::Validate => self.0.validate.is_some(),
            _ => false,
        };
        if is_served {
            return Ok(());
        }
        Err(format!("this loop can't serve `{}`", request.name()))
    }

    fn save(&mut self, tag: &str, states: &[u8]) -> Served {
        self.can(Request::SaveCheckpoint)?;
        let (Some(save), tag) = (self.0.save, c_text(tag)?) else {
            return Ok(());
        };
        // SAFETY: the program's function, called as its header says.
        Self::ask(|reason, room| unsafe {
            save(
                self.0.user,
                tag.as_ptr(),
                states.as_ptr(),
                states.len(),
                reason,
                room,
            )
        })
    }

    fn load_parameters(&mut self, tag: &str, set: Option<&str>) -> Served {
        self.can(Request::LoadParameters)?;
        let (Some(load), tag) = (self.0.load_parameters, c_text(tag)?) else {
            return Ok(());
        };
        let set = set.map(c_text).transpose()?;
        let set = set.as_ref().map_or(std::ptr::null(), |set| set.as_ptr());
        // SAFETY: the program's function, called as its header says.
        Self::ask(|reason, room| unsafe { load(self.0.user, tag.as_ptr(), set, reason, room) })
    }

    fn delete(&mut self, tag: &str) -> Served {
        self.can(Request::DeleteCheckpoint)?;
        let (Some(delete), tag) = (self.0.delete_checkpoint, c_text(tag)?) else {
            return Ok(());
        };
        // SAFETY: the program's function, called as its header says.
        Self::ask(|reason, room| unsafe { delete(self.0.user, tag.as_ptr(), reason, room) })
    }

    fn validate(&mut self) -> Served {
        self.can(Request::Validate)?;
        let Some(validate) = self.0.validate else {
            return Ok(());
        };
        // SAFETY: the program's function, called as its header says.
        Self::ask(|reason, room| unsafe { validate(self.0.user, reason, room) })
    }
}

impl Log for ServedByProgram {
    fn log(&self, level: Level, source: &str, message: &str) {
        let number = match level {
            Level::Warn => 1,
            Level::Info => 2,
            Level::Debug => 3,
        };
        let plain = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
        let (source, message) = (plain(source), plain(message));
        if let Some(log) = self.0.log {
            // SAFETY: the program's function, called as its header says.
            unsafe { log(self.0.user, number, source.as_ptr(), message.as_ptr()) };
        }
    }
}
