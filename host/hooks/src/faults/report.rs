//! Report of a process that a hook has ended: a message, and `crash.json`.
//!
//! All of it can run in a signal handler: texts were prepared before, numbers are formatted by
//! hand, nothing is allocated or locked.

use super::suspects::Suspects;
use super::trail::{Crumb, Trail};
use crate::hook_id::HookId;
use sconce_manifest::printable::breaks_line;

/// Maximum length of a report in bytes; the rest is cut off.
const LONGEST: usize = 16 * 1024;

/// Cause of the process's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// A signal.
    Crash,
    /// A call of `exit`.
    Exit,
    /// A call that took too long.
    Hang,
}

/// Known facts about the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessEnd {
    pub(super) kind: FaultKind,
    /// Name of the signal.
    pub(super) signal: Option<&'static str>,
    pub(super) stack_overflow: bool,
    /// Whether it happened on the thread on which hooks are called.
    pub(super) on_training_thread: bool,
    /// Plugin in whose code it happened, as its first hook.
    pub(super) library: Option<HookId>,
    /// Whether it happened in a function called by that plugin's code, rather than in the code
    /// itself.
    pub(super) is_called: bool,
    /// Duration of the call.
    pub(super) seconds: Option<u64>,
}

/// Text in a buffer of fixed size.
pub(super) struct ReportText {
    bytes: [u8; LONGEST],
    length: usize,
}

impl ReportText {
    pub(super) const fn new() -> ReportText {
        ReportText {
            bytes: [0; LONGEST],
            length: 0,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub(super) fn put(&mut self, text: &str) -> &mut ReportText {
        self.put_bytes(text.as_bytes())
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> &mut ReportText {
        let room = self.bytes.get_mut(self.length..).unwrap_or_default();
        let mut count = 0;
        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
            count += 1;
        }
        self.length += count;
        self
    }

    pub(super) fn put_number(&mut self, number: u64) -> &mut ReportText {
        let mut digits = [0; 20];
        let mut rest = number;
        let mut first = digits.len();
        for (index, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            first = index;
            if rest == 0 {
                break;
            }
        }
        self.put_bytes(digits.get(first..).unwrap_or_default())
    }

    /// Appends untrusted bytes as a JSON string; non-ASCII bytes are left as they are.
    fn put_quoted(&mut self, bytes: &[u8]) -> &mut ReportText {
        self.put("\"");
        for byte in bytes {
            match byte {
                b'"' => self.put("\\\""),
                b'\\' => self.put("\\\\"),
                0..0x20 => self.put("?"),
                _ => self.put_bytes(std::slice::from_ref(byte)),
            };
        }
        self.put("\"")
    }

    /// Appends untrusted text for people; terminal control characters are replaced.
    fn put_shown(&mut self, text: &str) -> &mut ReportText {
        for c in text.chars() {
            let shown = if breaks_line(c) { '?' } else { c };
            self.put(shown.encode_utf8(&mut [0; 4]));
        }
        self
    }

    fn put_quoted_or_null(&mut self, text: Option<&str>) -> &mut ReportText {
        match text {
            Some(text) => self.put_quoted(text.as_bytes()),
            None => self.put("null"),
        }
    }
}

/// Writes the message for the user.
pub(super) fn message(text: &mut ReportText, end: &ProcessEnd, trail: &Trail, suspects: &Suspects) {
    let crumb = trail.read();
    let suspect = crumb
        .hook
        .and_then(|hook| suspects.hooks.get(hook.position()));
    text.put(&suspects.who).put("error: ");
    let seconds = end.seconds.unwrap_or(0);
    match (suspect, end.kind) {
        (_, FaultKind::Crash) if trail.has_ended() => {
            text.put("the process crashed (")
                .put(end.signal.unwrap_or("a signal"))
                .put(") when it exited, after the end of the run, which has written everything");
        }
        (Some(_), FaultKind::Crash) if !end.on_training_thread => {
            text.put("another thread crashed (")
                .put(end.signal.unwrap_or("a signal"))
                .put(") while ");
        }
        (None, FaultKind::Crash) => {
            text.put("the run crashed (")
                .put(end.signal.unwrap_or("a signal"))
                .put(") outside of its hooks");
        }
        (None, FaultKind::Exit) => {
            text.put("the process was ended by a call of `exit` outside of the run's hooks");
        }
        (None, FaultKind::Hang) => {
            text.put("the run hangs");
        }
        _ => {}
    }
    if let Some(suspect) = suspect.filter(|_| !trail.has_ended()) {
        text.put("hook `").put_shown(&suspect.name).put("`");
        match end.kind {
            FaultKind::Crash if end.on_training_thread => {
                text.put(" crashed (")
                    .put(end.signal.unwrap_or("a signal"))
                    .put(")");
            }
            FaultKind::Crash => {
                text.put(" was called");
            }
            FaultKind::Exit => {
                text.put(" called `exit`, which ends the process,");
            }
            FaultKind::Hang => {
                text.put(" has not come back for ")
                    .put_number(seconds)
                    .put(" s");
            }
        }
    }
    if !trail.has_ended() {
        put_event(text, &crumb);
    }
    if end.stack_overflow {
        text.put("\n  stack overflow");
    }
    if let Some(suspect) = suspect {
        text.put("\n  in plugin ").put_shown(&suspect.file);
    }
    let library = end
        .library
        .and_then(|hook| suspects.hooks.get(hook.position()));
    if let Some(library) = library {
        let place = if end.is_called {
            "\n  the crash is in what was called by the code of "
        } else {
            "\n  the crash is in the code of "
        };
        text.put(place).put_shown(&library.file);
    }
    let mut path = [0; 2048];
    let length = trail.checkpoint(&mut path);
    if length == 0 {
        text.put("\n  no checkpoint has been saved");
    } else {
        text.put("\n  last checkpoint: ")
            .put_shown(std::str::from_utf8(path.get(..length).unwrap_or_default()).unwrap_or("?"));
    }
    text.put("\n");
}

/// Writes the end of the message, after the attempt to write the report.
pub(super) fn message_end(
    text: &mut ReportText,
    end: &ProcessEnd,
    trail: &Trail,
    suspects: &Suspects,
    is_written: bool,
) {
    let crumb = trail.read();
    let suspect = crumb
        .hook
        .and_then(|hook| suspects.hooks.get(hook.position()));
    let library = end
        .library
        .and_then(|hook| suspects.hooks.get(hook.position()));
    text.put(if is_written {
        "  report: "
    } else {
        "  no report: it can't be written to "
    });
    text.put_shown(&suspects.report_shown);
    if let Some(suspect) = suspect.or(library) {
        text.put("\n  help: `--skip ")
            .put_shown(&suspect.name)
            .put("` runs without the hook");
    }
    text.put("\n");
}

fn put_event(text: &mut ReportText, crumb: &Crumb) {
    match crumb.entry() {
        "new" => text.put(" when it was created"),
        "save_state" => text.put(" when its state was saved"),
        "load_state" => text.put(" when its state was restored"),
        "drop" => text.put(" when it was dropped"),
        point => {
            let preposition = if crumb.hook.is_some() {
                " at `"
            } else {
                ", after `"
            };
            text.put(preposition)
                .put(point)
                .put("` (")
                .put(crumb.phase())
                .put("), epoch ");
            text.put_number(crumb.epoch)
                .put(", iteration ")
                .put_number(crumb.iteration)
        }
    };
}

/// Writes the contents of `crash.json`.
pub(super) fn json(text: &mut ReportText, end: &ProcessEnd, trail: &Trail, suspects: &Suspects) {
    let crumb = trail.read();
    let suspect = crumb
        .hook
        .and_then(|hook| suspects.hooks.get(hook.position()));
    let kind = match end.kind {
        FaultKind::Crash => "crash",
        FaultKind::Exit => "exit",
        FaultKind::Hang => "hang",
    };
    text.put("{\n  \"kind\": ").put_quoted(kind.as_bytes());
    text.put(",\n  \"signal\": ").put_quoted_or_null(end.signal);
    text.put(",\n  \"stack_overflow\": ")
        .put(if end.stack_overflow { "true" } else { "false" });
    text.put(",\n  \"hook\": ")
        .put_quoted_or_null(suspect.map(|suspect| suspect.name.as_str()));
    text.put(",\n  \"plugin\": ")
        .put_quoted_or_null(suspect.map(|suspect| suspect.plugin.as_str()));
    text.put(",\n  \"file\": ")
        .put_quoted_or_null(suspect.map(|suspect| suspect.file.as_str()));
    let point = if trail.has_ended() {
        "exit"
    } else {
        crumb.entry()
    };
    text.put(",\n  \"point\": ").put_quoted(point.as_bytes());
    text.put(",\n  \"phase\": ")
        .put_quoted(crumb.phase().as_bytes());
    text.put(",\n  \"epoch\": ").put_number(crumb.epoch);
    text.put(",\n  \"iteration\": ").put_number(crumb.iteration);
    let thread = if end.on_training_thread {
        "training"
    } else {
        "other"
    };
    text.put(",\n  \"thread\": ").put_quoted(thread.as_bytes());
    let library = end
        .library
        .and_then(|hook| suspects.hooks.get(hook.position()));
    text.put(",\n  \"in_code_of\": ")
        .put_quoted_or_null(library.map(|library| library.file.as_str()));
    text.put(",\n  \"seconds\": ");
    match end.seconds {
        Some(seconds) => text.put_number(seconds),
        None => text.put("null"),
    };
    let mut path = [0; 2048];
    let length = trail.checkpoint(&mut path);
    text.put(",\n  \"last_checkpoint\": ");
    match path.get(..length) {
        Some(path) if length > 0 => text.put_quoted(path),
        _ => text.put("null"),
    };
    text.put(",\n  \"pid\": ")
        .put_number(u64::from(std::process::id()));
    text.put(",\n  \"host\": ")
        .put_quoted(crate::version::HOST_VERSION.as_bytes());
    text.put("\n}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_written_as_json_has_them() {
        let mut text = ReportText::new();
        text.put_number(0).put(" ").put_number(u64::MAX).put(" ");
        text.put_quoted(b"a\"b\\c\nd\xc3\xa9");
        assert_eq!(
            String::from_utf8_lossy(text.bytes()),
            "0 18446744073709551615 \"a\\\"b\\\\c?d\u{e9}\""
        );
        let mut long = ReportText::new();
        for _ in 0..LONGEST {
            long.put("xy");
        }
        assert_eq!(long.bytes().len(), LONGEST);
    }

    #[test]
    fn a_report_is_json() {
        let end = ProcessEnd {
            kind: FaultKind::Hang,
            signal: None,
            stack_overflow: false,
            on_training_thread: true,
            library: None,
            is_called: false,
            seconds: Some(7),
        };
        let mut text = ReportText::new();
        json(&mut text, &end, Trail::nowhere(), &Suspects::default());
        let value: serde_json::Value = serde_json::from_slice(text.bytes()).expect("JSON");
        assert_eq!(value["kind"], "hang");
        assert_eq!(value["seconds"], 7);
        assert!(value["hook"].is_null() && value["last_checkpoint"].is_null());
    }
}
