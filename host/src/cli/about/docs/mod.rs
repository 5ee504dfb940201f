//! `sconce docs`: shows the documentation that came with this program, or searches it.
//!
//! - [`place`] finds the pages: beside an installed program, or in the checkout that it was built in.
//! - [`pages`] reads them, in the order of `SUMMARY.md`, and splits them into sections by their headings.
//! - [`search`] ranks sections by the words in them, and quotes a line of each.

mod pages;
mod place;
mod search;

use std::io::IsTerminal;

use clap::Args;

use self::place::Place;
use crate::cli::show::{browser, output};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::session::StartFailure;

/// Number of sections shown.
const SHOWN: usize = 8;

/// Arguments of `sconce docs`.
#[derive(Debug, Args)]
pub(in crate::cli) struct DocsArgs {
    /// Prints the sections in which all of these words occur, the best first. Without words: says where the pages and the
    /// examples are, and opens the pages in a browser.
    words: Vec<String>,
    /// Doesn't open a browser.
    #[arg(long)]
    no_open: bool,
}

pub(in crate::cli) fn docs(arguments: &DocsArgs) -> Result<u8, StartFailure> {
    let place = place::find().map_err(usage)?;
    if arguments.words.is_empty() {
        show(&place, arguments.no_open);
        return Ok(exit::DONE);
    }
    let pages = pages::read(&place.pages).map_err(|error| {
        usage(Diagnostic::new(format!(
            "can't read the documentation: {error}"
        )))
    })?;
    let found = search::search(&pages, &arguments.words);
    if found.is_empty() {
        let words = arguments.words.join(" ");
        let problem = Diagnostic::new(format!(
            "no section of the documentation contains `{words}`"
        ));
        return Err(usage(problem.hint(
            "search for fewer words, or for a part of one: all of them must occur in the same section",
        )));
    }
    for found in found.iter().take(SHOWN) {
        let section = found.section;
        output::line(&section.title());
        if !found.excerpt.is_empty() {
            output::line(&format!("    {}", found.excerpt));
        }
        output::line(&format!("    {}", place.address(section)));
    }
    if found.len() > SHOWN {
        output::line(&format!(
            "and {} more: a further word narrows the search",
            found.len() - SHOWN
        ));
    }
    Ok(exit::DONE)
}

/// Says where the pages are, and opens them where there is a screen.
fn show(place: &Place, no_open: bool) {
    let index = place.index();
    let is_shown = !no_open && std::io::stdout().is_terminal() && browser::open(&index);
    let shown = if is_shown {
        ", opened in a browser"
    } else {
        ""
    };
    output::line(&format!("documentation: {}{shown}", index.display()));
    if let Some(examples) = &place.examples {
        output::line(&format!("examples: {}", examples.display()));
    }
    output::line("`sconce docs WORD` searches it here");
}

fn usage(problem: Diagnostic) -> StartFailure {
    StartFailure::usage(vec![problem])
}
