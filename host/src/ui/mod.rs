//! The live view of `sconce run --ui`: curves, progress, timings and log on the full terminal.
//!
//! The training thread stores numbers in a [`state`]; the view's own thread copies them several times a
//! second, draws them ([`view`]), and passes on requests made by [`keys`] through a [`Remote`]. The
//! [`terminal`] is restored however the process ends.

mod curve;
mod keys;
mod lines;
mod state;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod thread;
mod view;

use std::io::IsTerminal;
use std::sync::Arc;

use crate::log::{Level, Log, StderrLog};
use crate::run::{Observer, Remote};
use crate::screen;

#[cfg(unix)]
pub(crate) use terminal::leave;

/// A view not yet started; the run's terminal is suitable for one.
pub(crate) struct View {
    state: Arc<state::SharedViewState>,
    remote: Remote,
}

/// The reason why there is no view.
pub(crate) struct NoView(String);

impl NoView {
    /// The reason as a one-line message.
    pub(crate) fn message(&self) -> String {
        format!("lines instead of the live view: {}", self.0)
    }
}

impl View {
    /// Creates a view of the run of this name, if the terminal is suitable.
    pub(crate) fn of(run: &str, log: StderrLog) -> Result<View, NoView> {
        match why_not(log) {
            Some(reason) => Err(NoView(reason)),
            None => Ok(View {
                state: Arc::new(state::SharedViewState::new(run)),
                remote: Remote::default(),
            }),
        }
    }

    /// The log to be used by the run from now on.
    pub(crate) fn log(&self, lines: StderrLog) -> ViewLog {
        ViewLog {
            lines,
            state: Arc::clone(&self.state),
        }
    }

    /// The handle for requests to the run.
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// The observer to be given to the run.
    pub(crate) fn observer(&self) -> &dyn Observer {
        self.state.as_ref()
    }

    /// Takes over the terminal and draws on it until the returned value is dropped.
    #[cfg(unix)]
    pub(crate) fn begin(&self) -> std::io::Result<thread::Drawing> {
        thread::Drawing::begin(Arc::clone(&self.state), self.remote.clone())
    }

    #[cfg(not(unix))]
    pub(crate) fn begin(&self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn why_not(log: StderrLog) -> Option<String> {
    use rustix::stdio::stderr;
    use rustix::termios::tcgetwinsize;

    if log.form == crate::log::MessageFormat::Json {
        return Some("the log is JSON".to_owned());
    }
    if log.level < Level::Info {
        return Some("`--quiet`".to_owned());
    }
    if !std::io::stderr().is_terminal() {
        return Some("standard error is not a terminal".to_owned());
    }
    if !std::io::stdin().is_terminal() {
        return Some("standard input is not a terminal".to_owned());
    }
    if screen::columns() == 0 {
        return Some("the terminal is a dumb one (`TERM`)".to_owned());
    }
    let (columns, lines) = view::LEAST;
    match tcgetwinsize(stderr()) {
        Ok(size) if size.ws_col < columns || size.ws_row < lines => Some(format!(
            "the terminal has {} columns and {} lines, fewer than {columns} and {lines}",
            size.ws_col, size.ws_row
        )),
        Ok(_) => None,
        Err(error) => Some(format!("the terminal does not tell its size: {error}")),
    }
}

#[cfg(not(unix))]
fn why_not(_: StderrLog) -> Option<String> {
    Some("it is not to be had on this system".to_owned())
}

/// There is no terminal to restore.
#[cfg(not(unix))]
pub(crate) fn leave() {}

/// The log of a run with a view. Lines go to standard error, which the view has redirected, and the status
/// line goes to the view.
pub(crate) struct ViewLog {
    lines: StderrLog,
    state: Arc<state::SharedViewState>,
}

impl Log for ViewLog {
    fn log(&self, level: Level, source: &str, message: &str) {
        self.lines.log(level, source, message);
    }

    fn columns(&self) -> u16 {
        #[cfg(unix)]
        if let Some((columns, _)) = terminal::size() {
            // The view leaves one column free on each side.
            return columns.saturating_sub(1).max(1);
        }
        self.lines.columns()
    }

    fn status(&self, text: &str) {
        self.state.set_status(text);
    }
}
