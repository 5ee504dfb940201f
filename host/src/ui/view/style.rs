//! Colours, or none.

use ratatui::style::{Color, Modifier, Style};

/// How things are shown: by colours where the user wants them, and never by colours alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ui) enum Palette {
    Colours,
    /// `NO_COLOR` is set.
    Plain,
}

impl Palette {
    /// As the environment wants it.
    pub(in crate::ui) fn of_environment() -> Palette {
        match std::env::var_os("NO_COLOR") {
            Some(value) if !value.is_empty() => Palette::Plain,
            _ => Palette::Colours,
        }
    }

    fn colour(self, colour: Color) -> Style {
        match self {
            Palette::Colours => Style::new().fg(colour),
            Palette::Plain => Style::new(),
        }
    }

    /// What says what something is.
    pub(super) fn label() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What stands out.
    pub(super) fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The training's curve and progress.
    pub(super) fn train(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// The training's single iterations.
    pub(super) fn faint(self) -> Style {
        self.colour(Color::DarkGray)
    }

    /// The validation's curve.
    pub(super) fn val(self) -> Style {
        self.colour(Color::Yellow)
    }

    /// The best.
    pub(super) fn best(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    /// Warnings, and what waits for an answer.
    pub(super) fn warning(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Errors.
    pub(super) fn error(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Whether curves are told apart by their colours.
    pub(super) fn has_colours(self) -> bool {
        self == Palette::Colours
    }
}
