//! The pages, split into sections.

use std::io;
use std::path::Path;

/// What is between a heading and the next one.
#[derive(Debug)]
pub(super) struct Section {
    /// Name of the page's file, without its extension.
    pub(super) page: String,
    /// The page's first heading.
    pub(super) page_title: String,
    /// The section's heading, without markup.
    pub(super) heading: String,
    /// The heading's name in the rendered page.
    pub(super) anchor: String,
    /// The text's lines, in Markdown.
    pub(super) lines: Vec<String>,
}

impl Section {
    /// The page's title, and the heading below it.
    pub(super) fn title(&self) -> String {
        if self.heading == self.page_title {
            return self.heading.clone();
        }
        format!("{}: {}", self.page_title, self.heading)
    }
}

/// Reads the pages in the order in which `SUMMARY.md` in a directory names them.
pub(super) fn read(directory: &Path) -> io::Result<Vec<Section>> {
    let summary = fs_err::read_to_string(directory.join("SUMMARY.md"))?;
    let mut sections = Vec::new();
    for page in names(&summary) {
        let text = fs_err::read_to_string(directory.join(format!("{page}.md")))?;
        sections.extend(split(page, &text));
    }
    Ok(sections)
}

/// Names of the pages that a summary links to.
fn names(summary: &str) -> impl Iterator<Item = &str> {
    let links = summary.lines().filter_map(|line| {
        let (_, link) = line.split_once("](")?;
        link.strip_suffix(".md)")
    });
    // A page of this directory, and no path.
    links.filter(|name| !name.contains(['/', '\\']))
}

/// Splits a page's text by its headings.
pub(super) fn split(page: &str, text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if let Some(heading) = heading(line).filter(|_| !is_code) {
            let heading = plain(heading);
            let page_title = sections.first().map_or(&heading, |first| &first.page_title);
            sections.push(Section {
                page: page.to_owned(),
                page_title: page_title.clone(),
                anchor: anchor(&heading, &sections),
                heading,
                lines: Vec::new(),
            });
        } else if let Some(section) = sections.last_mut().filter(|_| !line.starts_with("<!--")) {
            section.lines.push(line.to_owned());
        }
    }
    sections
}

/// A heading's text.
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let is_heading = (1..=6).contains(&level) && text.starts_with(' ');
    is_heading.then(|| text.trim())
}

/// A line without the marks of code and emphasis, and with links' texts only.
pub(super) fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, link)) = rest.split_once("](") {
        match before.rsplit_once('[') {
            Some((before, name)) => text.extend([before, name]),
            None => text.push_str(before),
        }
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text.retain(|c| !matches!(c, '`' | '*'));
    text
}

/// The name that mdbook gives a heading after earlier ones of its page.
fn anchor(heading: &str, earlier: &[Section]) -> String {
    let name: String = (heading.to_lowercase().chars())
        .filter_map(|c| match c {
            _ if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
            _ if c.is_whitespace() => Some('-'),
            _ => None,
        })
        .collect();
    let is_taken = |name: &str| earlier.iter().any(|section| section.anchor == name);
    if !is_taken(&name) {
        return name;
    }
    (1..=earlier.len())
        .map(|number| format!("{name}-{number}"))
        .find(|name| !is_taken(name))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_split_at_headings_and_not_in_code() {
        let text = "# The `x` hook\n\nFirst.\n<!-- made -->\n```sh\n# no heading\n```\n## See [it](a.md#b)\nhere\n## See it\n";
        let sections = split("x", text);
        let found: Vec<_> = (sections.iter())
            .map(|section| (section.heading.as_str(), section.anchor.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("The x hook", "the-x-hook"),
                ("See it", "see-it"),
                ("See it", "see-it-1")
            ]
        );
        let lines = sections.first().map(|first| first.lines.as_slice());
        assert_eq!(lines.unwrap_or_default(), ["", "First.", "# no heading"]);
        assert!(
            sections
                .iter()
                .all(|section| section.page_title == "The x hook")
        );
    }

    #[test]
    fn a_summary_names_pages_of_its_directory_only() {
        let summary = "# S\n[A](a.md)\n- [B](b-c.md)\n- [C](../c.md)\n[D](https://d.org/x.md)\n";
        assert_eq!(names(summary).collect::<Vec<_>>(), ["a", "b-c"]);
    }
}
