//! The live view of `sconce run --ui`: curves, progress, times and log on the whole terminal.
//!
//! The training pushes numbers into a [`state`]; a thread of the view's own copies them some times a
//! second, draws them ([`view`]), and asks for what [`keys`] say by a [`Remote`]. The [`terminal`] is
//! given back however the process ends.

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

/// A view that is to be: the run has a terminal that is good for one.
pub(crate) struct View {
    state: Arc<state::Shared>,
    remote: Remote,
}

/// Why there is no view, for people.
pub(crate) struct NoView(String);

impl NoView {
    /// A line of words.
    pub(crate) fn message(&self) -> String {
        format!("lines instead of the live view: {}", self.0)
    }
}

impl View {
    /// A view of the run of this name, if the terminal is good for one.
    pub(crate) fn of(run: &str, log: StderrLog) -> Result<View, NoView> {
        match why_not(log) {
            Some(reason) => Err(NoView(reason)),
            None => Ok(View {
                state: Arc::new(state::Shared::new(run)),
                remote: Remote::default(),
            }),
        }
    }

    /// Where the run's words go from now on.
    pub(crate) fn log(&self, lines: StderrLog) -> ViewLog {
        ViewLog {
            lines,
            state: Arc::clone(&self.state),
        }
    }

    /// What asks things of the run.
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// What the run is to show itself to.
    pub(crate) fn observer(&self) -> &dyn Observer {
        self.state.as_ref()
    }

    /// Takes the terminal and draws on it, until the value that is given back is dropped.
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

    if log.form == crate::log::Form::Json {
        return Some("the log is JSON".to_owned());
    }
    if log.level < Level::Info {
        return Some("`--quiet`".to_owned());
    }
    if !std::io::stderr().is_terminal() {
        return Some("standard error is no terminal".to_owned());
    }
    if !std::io::stdin().is_terminal() {
        return Some("standard input is no terminal".to_owned());
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

/// There is no terminal to give back.
#[cfg(not(unix))]
pub(crate) fn leave() {}

/// The log of a run with a view: lines go to standard error, which is the view's meanwhile; the line
/// below them goes to the view.
pub(crate) struct ViewLog {
    lines: StderrLog,
    state: Arc<state::Shared>,
}

impl Log for ViewLog {
    fn log(&self, level: Level, source: &str, message: &str) {
        self.lines.log(level, source, message);
    }

    fn columns(&self) -> u16 {
        #[cfg(unix)]
        if let Some((columns, _)) = terminal::size() {
            // The view leaves a column free at each side.
            return columns.saturating_sub(1).max(1);
        }
        self.lines.columns()
    }

    fn status(&self, text: &str) {
        self.state.set_status(text);
    }
}
