//! A bar rendered to memory: the host displays it, so that it never mixes with messages.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use sconce_plugin_api::prelude::*;

use super::config::Config;

/// The bar of one pass.
pub(crate) struct Bar {
    bar: ProgressBar,
    drawn: Drawn,
}

/// An in-memory terminal of one line.
#[derive(Clone, Debug, Default)]
struct Drawn(Arc<Mutex<String>>);

impl Drawn {
    fn with<T>(&self, what: impl FnOnce(&mut String) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TermLike for Drawn {
    fn width(&self) -> u16 {
        // Wider than any line: the caller cuts it to the true width.
        u16::MAX
    }

    fn move_cursor_up(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.write_str(line)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.with(|drawn| drawn.push_str(text));
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.with(String::clear);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Bar {
    /// Creates a bar for this many batches, with a text in front.
    pub(crate) fn new(batches: u64, prefix: String, config: &Config) -> Result<Bar> {
        let drawn = Drawn::default();
        let target = ProgressDrawTarget::term_like(Box::new(drawn.clone()));
        let template = format!(
            "{{prefix}} [{{bar:{}}}] {{pos}}/{{len}}{{msg}}",
            config.width
        );
        let characters = if config.ascii {
            "=>-"
        } else {
            "█▉▊▋▌▍▎▏ "
        };
        let style = ProgressStyle::with_template(&template)
            .context("the bar can't be drawn")?
            .progress_chars(characters);
        let bar = ProgressBar::with_draw_target(Some(batches), target)
            .with_style(style)
            .with_prefix(prefix);
        Ok(Bar { bar, drawn })
    }

    /// Draws the bar at a batch, followed by a text, cut to this many columns.
    pub(crate) fn draw(&self, batch: u64, message: String, columns: usize) -> String {
        self.drawn.with(String::clear);
        self.bar.set_message(message);
        self.drawn.with(String::clear);
        self.bar.update(|state| state.set_pos(batch));
        self.drawn.with(String::clear);
        self.bar.tick();
        let text = self.drawn.with(|drawn| drawn.trim_end().to_owned());
        // A line that fills the last column makes some terminals start the next one.
        text.chars().take(columns.saturating_sub(1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_from_left_to_right() {
        let config = Config {
            width: 4,
            ascii: true,
            ..Config::default()
        };
        let bar = Bar::new(8, "train".to_owned(), &config).expect("a bar");
        for (batch, expected) in [
            (0, "train [----] 0/8 x"),
            (2, "train [=>--] 2/8 x"),
            (4, "train [==>-] 4/8 x"),
            (8, "train [====] 8/8 x"),
        ] {
            assert_eq!(bar.draw(batch, " x".to_owned(), 80), expected);
        }
        assert_eq!(bar.draw(8, String::new(), 8), "train [");
        let blocks = Config {
            width: 2,
            ..Config::default()
        };
        let bar = Bar::new(4, "val".to_owned(), &blocks).expect("a bar");
        assert_eq!(bar.draw(1, String::new(), 80), "val [▌ ] 1/4");
    }
}
