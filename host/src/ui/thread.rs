//! The view's thread: reads the run's state and the keys, and draws.

use std::io::{self, BufWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::process::{Signal, getpid, kill_process};

use super::keys::{KeyAction, LogExtent, ViewChoices};
use super::lines::Lines;
use super::state::{SharedViewState, ViewState};
use super::terminal::{self, Screen};
use super::view::{self, Palette, Picture};
use crate::run::{Now, Remote};

/// Time between two frames; keys are handled immediately.
const BETWEEN: Duration = Duration::from_millis(200);

/// Maximum time between checks for the end and for keys.
const LOOK: Duration = Duration::from_millis(50);

/// The running thread; when it ends, the terminal is restored.
pub(crate) struct Drawing {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drawing {
    /// Takes over the terminal and starts to draw.
    pub(super) fn begin(state: Arc<SharedViewState>, remote: Remote) -> io::Result<Drawing> {
        terminal::enter()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let body = move || {
            let _end = GiveBack;
            // If the terminal can no longer be drawn on, the run continues with plain lines.
            drop(Painter::new(state, remote).and_then(|mut painter| painter.paint(&told)));
        };
        let thread = thread::Builder::new().name("view".to_owned()).spawn(body);
        match thread {
            Ok(thread) => Ok(Drawing {
                is_over,
                thread: Some(thread),
            }),
            Err(error) => {
                terminal::leave();
                Err(error)
            }
        }
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic has already been reported.
            drop(thread.join());
        }
    }
}

/// Restores the terminal on drop, including on a panic.
struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        terminal::leave();
    }
}

type Paper = Terminal<CrosstermBackend<BufWriter<Screen>>>;

struct Painter {
    shared: Arc<SharedViewState>,
    remote: Remote,
    choice: ViewChoices,
    lines: Lines,
    /// Number of bytes of the written text already split into lines.
    read: u64,
    palette: Palette,
    paper: Paper,
    size: (u16, u16),
    /// Number of log lines on the screen.
    log_height: u16,
    /// Last progress of the run, and the time at which it was first seen.
    now: (Option<Now>, Instant),
}

impl Painter {
    fn new(shared: Arc<SharedViewState>, remote: Remote) -> io::Result<Painter> {
        let size = terminal::size().unwrap_or((80, 24));
        Ok(Painter {
            shared,
            remote,
            choice: ViewChoices::default(),
            lines: Lines::default(),
            read: 0,
            palette: Palette::of_environment(),
            paper: paper(size)?,
            size,
            log_height: 0,
            now: (None, Instant::now()),
        })
    }

    fn paint(&mut self, is_over: &AtomicBool) -> io::Result<()> {
        let mut next = Instant::now();
        while !is_over.load(Ordering::Acquire) {
            let mut is_due = Instant::now() >= next;
            if event::poll(if is_due { Duration::ZERO } else { LOOK })? {
                self.hear(&event::read()?)?;
                is_due = true;
            }
            if is_due {
                next = Instant::now() + BETWEEN;
                self.draw()?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, event: &Event) -> io::Result<()> {
        let Event::Key(key) = event else {
            return Ok(());
        };
        let log = LogExtent {
            begin: self.lines.begin(),
            end: self.lines.end(),
            height: self.log_height.into(),
        };
        match self.choice.press(*key, log) {
            Some(KeyAction::Ask(wish)) => self.remote.ask(wish),
            // To the handler that Ctrl-C reaches without a view.
            Some(KeyAction::Interrupt) => kill_process(getpid(), Signal::INT)?,
            Some(KeyAction::Redraw) => self.size = (0, 0),
            None => {}
        }
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        self.read_lines();
        let size = terminal::size().unwrap_or(self.size);
        if size != self.size {
            Screen.clear()?;
            self.paper = paper(size)?;
            self.size = size;
        }
        let state = self.shared.copy();
        let since = self.since(&state);
        let picture = Picture {
            state: &state,
            choice: &self.choice,
            lines: &self.lines,
            waiting: &self.remote.waiting(),
            since,
            palette: self.palette,
        };
        let mut log_height = 0;
        self.paper
            .draw(|frame| log_height = view::draw(frame, &picture))?;
        self.log_height = log_height;
        Ok(())
    }

    /// Seconds since the run last reported its progress.
    fn since(&mut self, state: &ViewState) -> f64 {
        if self.now.0 != state.now {
            self.now = (state.now, Instant::now());
        }
        self.now.1.elapsed().as_secs_f64()
    }

    fn read_lines(&mut self) {
        let mut room = [0; 4096];
        loop {
            let count = terminal::written(self.read, &mut room);
            let Some(bytes @ [_, ..]) = room.get(..count) else {
                return;
            };
            self.lines.push(bytes);
            self.read += count as u64;
        }
    }
}

/// Creates an empty screen of this size.
fn paper((columns, lines): (u16, u16)) -> io::Result<Paper> {
    let backend = CrosstermBackend::new(BufWriter::with_capacity(1 << 16, Screen));
    let viewport = Viewport::Fixed(Rect::new(0, 0, columns, lines));
    Terminal::with_options(backend, TerminalOptions { viewport })
}
