//! Colours and text styles.

use ratatui::style::{Color, Modifier, Style};

/// The available styles: colours if the user wants them, never as the only distinction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ui) enum Palette {
    Colours,
    /// `NO_COLOR` is set.
    Plain,
}

impl Palette {
    /// Chooses according to the environment.
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

    /// Labels.
    pub(super) fn label() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Emphasis.
    pub(super) fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Curve and progress of training.
    pub(super) fn train(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// Single training iterations.
    pub(super) fn faint(self) -> Style {
        self.colour(Color::DarkGray)
    }

    /// Curve of validation.
    pub(super) fn val(self) -> Style {
        self.colour(Color::Yellow)
    }

    /// Best values.
    pub(super) fn best(self) -> Style {
        self.colour(Color::Green).add_modifier(Modifier::BOLD)
    }

    /// Warnings and questions.
    pub(super) fn warning(self) -> Style {
        self.colour(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Errors.
    pub(super) fn error(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Whether curves are distinguished by colour.
    pub(super) fn has_colours(self) -> bool {
        self == Palette::Colours
    }
}
