//! Where the documentation is.

use std::path::{Path, PathBuf};

use super::pages::Section;
use crate::diagnostic::Diagnostic;

/// Directory of the documentation, relative to that of an installation.
const INSTALLED: &str = "share/doc/sconce";

/// The documentation's directories.
pub(super) struct Place {
    /// The pages in Markdown, with their summary.
    pub(super) pages: PathBuf,
    /// The rendered pages.
    html: Option<PathBuf>,
    /// The examples that the pages name.
    pub(super) examples: Option<PathBuf>,
}

impl Place {
    fn new(pages: PathBuf, html: PathBuf, examples: PathBuf) -> Option<Place> {
        let is_there = pages.join("SUMMARY.md").is_file();
        is_there.then(|| Place {
            html: html.join("index.html").is_file().then_some(html),
            examples: examples.is_dir().then_some(examples),
            pages,
        })
    }

    /// The page to begin with.
    pub(super) fn index(&self) -> PathBuf {
        match &self.html {
            Some(html) => html.join("index.html"),
            None => self.pages.join("SUMMARY.md"),
        }
    }

    /// A section's file; of a rendered page with the heading's anchor.
    pub(super) fn address(&self, section: &Section) -> String {
        let page = &section.page;
        match &self.html {
            Some(html) => {
                let file = html.join(format!("{page}.html"));
                format!("{}#{}", file.display(), section.anchor)
            }
            None => self.pages.join(format!("{page}.md")).display().to_string(),
        }
    }
}

/// Finds the documentation that came with this program.
pub(super) fn find() -> Result<Place, Diagnostic> {
    let program = crate::subprocess::executable().and_then(std::fs::canonicalize);
    let program = program.unwrap_or_default();
    let root = program.parent().and_then(Path::parent);
    let installed = root.unwrap_or(Path::new("..")).join(INSTALLED);
    let in_checkout = || {
        // The program is in `target/PROFILE`.
        let target = root?;
        let checkout = target.parent()?;
        Place::new(
            checkout.join("docs"),
            target.join("book"),
            checkout.join("examples"),
        )
    };
    Place::new(
        installed.clone(),
        installed.join("html"),
        installed.join("examples"),
    )
    .or_else(in_checkout)
    .ok_or_else(|| {
        Diagnostic::new("the documentation did not come with this program")
            .note(format!("there is no directory `{}`", installed.display()))
            .hint("archives and wheels of a release contain it")
    })
}
