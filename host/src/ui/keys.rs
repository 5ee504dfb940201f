//! Handles the keys of the live view.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::run::RemoteRequest;

/// The panes, of which a small terminal shows one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pane {
    #[default]
    Curves,
    Metrics,
    Times,
    Log,
}

impl Pane {
    /// All panes, in the order of their keys.
    pub(super) const ALL: [Pane; 4] = [Pane::Curves, Pane::Metrics, Pane::Times, Pane::Log];

    /// Name of the pane on the screen.
    pub(super) fn name(self) -> &'static str {
        match self {
            Pane::Curves => "curves",
            Pane::Metrics => "metrics",
            Pane::Times => "times",
            Pane::Log => "log",
        }
    }

    /// The pane `step` positions further on, wrapping around.
    fn beside(self, step: usize) -> Pane {
        let place = Pane::ALL.iter().position(|pane| *pane == self);
        let next = (place.unwrap_or(0) + step) % Pane::ALL.len();
        Pane::ALL.get(next).copied().unwrap_or_default()
    }
}

/// The user's choices about what is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ViewChoices {
    pub(super) pane: Pane,
    /// Whether the user is being asked to confirm the end of training.
    pub(super) asks_to_stop: bool,
    pub(super) shows_help: bool,
    pub(super) is_paused: bool,
    /// Number of the line after the last log line shown; `None` follows the newest line.
    pub(super) log_end: Option<u64>,
}

/// Properties of the log needed for scrolling.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogExtent {
    /// Number of the first line kept; `end` is that of the line after the last.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Number of lines shown.
    pub(super) height: u64,
}

/// An action requested by a key, other than a change of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    /// A request to the run.
    Ask(RemoteRequest),
    /// The effect of Ctrl-C without a view.
    Interrupt,
    /// Redraw the whole screen.
    Redraw,
}

impl ViewChoices {
    /// Handles a key press.
    pub(super) fn press(&mut self, key: KeyEvent, log: LogExtent) -> Option<KeyAction> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(KeyAction::Interrupt),
                KeyCode::Char('l') => Some(KeyAction::Redraw),
                _ => None,
            };
        }
        if self.asks_to_stop {
            return self.answer(key.code);
        }
        if self.shows_help {
            self.shows_help = false;
            return None;
        }
        match key.code {
            KeyCode::Char('q' | 's') => self.asks_to_stop = true,
            KeyCode::Char('c') => return Some(KeyAction::Ask(RemoteRequest::Checkpoint)),
            KeyCode::Char('r') => return Some(KeyAction::Ask(RemoteRequest::Reload)),
            KeyCode::Char('v') => return Some(KeyAction::Ask(RemoteRequest::Validate)),
            KeyCode::Char('p') => {
                self.is_paused = !self.is_paused;
                let pauses = self.is_paused;
                return Some(KeyAction::Ask(if pauses {
                    RemoteRequest::Pause
                } else {
                    RemoteRequest::GoOn
                }));
            }
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Tab => self.pane = self.pane.beside(1),
            KeyCode::BackTab => self.pane = self.pane.beside(Pane::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='4') => {
                let place = digit as usize - '1' as usize;
                self.pane = Pane::ALL.get(place).copied().unwrap_or_default();
            }
            code => self.scroll(code, log),
        }
        None
    }

    /// Handles the answer to whether training should end.
    fn answer(&mut self, code: KeyCode) -> Option<KeyAction> {
        match code {
            KeyCode::Char('y' | 'Y') => {
                self.asks_to_stop = false;
                self.is_paused = false;
                Some(KeyAction::Ask(RemoteRequest::Stop))
            }
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => {
                self.asks_to_stop = false;
                None
            }
            _ => None,
        }
    }

    fn scroll(&mut self, code: KeyCode, log: LogExtent) {
        let page = log.height.saturating_sub(1).max(1);
        let end = self.log_end.unwrap_or(log.end);
        // At the start of the log, the page is full.
        let first = (log.begin + log.height).min(log.end);
        let end = match code {
            KeyCode::Up => end.saturating_sub(1),
            KeyCode::PageUp => end.saturating_sub(page),
            KeyCode::Home => first,
            KeyCode::Down => end + 1,
            KeyCode::PageDown => end + page,
            KeyCode::End | KeyCode::Esc => log.end,
            _ => return,
        };
        self.log_end = (end < log.end)
            .then_some(end.max(first))
            .filter(|end| *end < log.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogExtent = LogExtent {
        begin: 0,
        end: 100,
        height: 11,
    };

    fn press(choice: &mut ViewChoices, code: KeyCode) -> Option<KeyAction> {
        choice.press(KeyEvent::new(code, KeyModifiers::NONE), LOG)
    }

    #[test]
    fn a_stop_is_asked_about() {
        let mut choice = ViewChoices::default();
        for key in ['q', 's'] {
            assert_eq!(press(&mut choice, KeyCode::Char(key)), None);
            assert!(choice.asks_to_stop);
            assert_eq!(press(&mut choice, KeyCode::Char('c')), None);
            assert!(choice.asks_to_stop);
            assert_eq!(press(&mut choice, KeyCode::Char('n')), None);
            assert!(!choice.asks_to_stop);
        }
        press(&mut choice, KeyCode::Char('q'));
        let action = press(&mut choice, KeyCode::Char('y'));
        assert_eq!(action, Some(KeyAction::Ask(RemoteRequest::Stop)));
        assert!(!choice.asks_to_stop);
    }

    #[test]
    fn keys_ask_things_of_the_run() {
        let mut choice = ViewChoices::default();
        for (key, wish) in [
            ('c', RemoteRequest::Checkpoint),
            ('v', RemoteRequest::Validate),
            ('r', RemoteRequest::Reload),
            ('p', RemoteRequest::Pause),
            ('p', RemoteRequest::GoOn),
        ] {
            assert_eq!(
                press(&mut choice, KeyCode::Char(key)),
                Some(KeyAction::Ask(wish))
            );
        }
        let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
        // Regardless of questions and help.
        choice.asks_to_stop = true;
        assert_eq!(choice.press(control('c'), LOG), Some(KeyAction::Interrupt));
        assert_eq!(choice.press(control('l'), LOG), Some(KeyAction::Redraw));
        assert_eq!(choice.press(control('d'), LOG), None);
    }

    #[test]
    fn panes_are_chosen_by_number_and_in_turn() {
        let mut choice = ViewChoices::default();
        press(&mut choice, KeyCode::Char('3'));
        assert_eq!(choice.pane, Pane::Times);
        for pane in [Pane::Log, Pane::Curves] {
            press(&mut choice, KeyCode::Tab);
            assert_eq!(choice.pane, pane);
        }
        press(&mut choice, KeyCode::BackTab);
        assert_eq!(choice.pane, Pane::Log);
    }

    #[test]
    fn help_goes_by_any_key() {
        let mut choice = ViewChoices::default();
        press(&mut choice, KeyCode::Char('?'));
        assert!(choice.shows_help);
        assert_eq!(press(&mut choice, KeyCode::Char('c')), None);
        assert!(!choice.shows_help);
    }

    #[test]
    fn the_log_scrolls_between_its_ends() {
        let mut choice = ViewChoices::default();
        let mut ends = Vec::new();
        for code in [
            KeyCode::Up,
            KeyCode::PageUp,
            KeyCode::Home,
            KeyCode::Up,
            KeyCode::PageDown,
            KeyCode::End,
            KeyCode::Down,
        ] {
            press(&mut choice, code);
            ends.push(choice.log_end);
        }
        let expected = [Some(99), Some(89), Some(11), Some(11), Some(21), None, None];
        assert_eq!(ends, expected);
        let short = LogExtent { end: 5, ..LOG };
        choice.press(KeyEvent::new(KeyCode::Up, KeyModifiers::NONE), short);
        assert_eq!(choice.log_end, None);
    }
}
