//! The page: one file of HTML, which loads nothing but the runs' data and pictures. Its parts are put together here.

/// The page's frame, with a mark for each part.
const FRAME: &str = include_str!("board.html");
const STYLE: &str = include_str!("board.css");

/// The script's parts, in an order in which each uses those before it.
const SCRIPT: [&str; 8] = [
    include_str!("parts.js"),
    include_str!("numbers.js"),
    include_str!("filter.js"),
    include_str!("table.js"),
    include_str!("charts.js"),
    include_str!("sweeps.js"),
    include_str!("details.js"),
    include_str!("main.js"),
];

/// What a browser lets the page do: run this script with this style, ask its own server, show its pictures. `nonce` marks both.
pub(super) fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src 'self' data:; \
         frame-src 'self'; base-uri 'none'; form-action 'none'"
    )
}

/// What a browser lets an exported page do: run this script, and show what is within the page. Styles are not marked, since those of a
/// run's pages, which are shown in frames, can't be.
fn exported_policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data:; frame-src data:; base-uri 'none'; \
         form-action 'none'"
    )
}

/// The page, with data as JSON within it or none.
pub(super) fn page(nonce: &str, data: Option<&str>) -> String {
    let script = format!("(() => {{\n\"use strict\";\n{}}})();\n", SCRIPT.concat());
    // Within a script's element nothing ends it but `</script`.
    let policy = match data {
        Some(_) => exported_policy(nonce),
        None => policy(nonce),
    };
    let data = data.unwrap_or("null").replace('<', "\\u003c");
    let parts = [
        ("%POLICY%", &*policy),
        ("%NONCE%", nonce),
        ("%STYLE%", STYLE),
        ("%DATA%", &data),
        ("%NONCE%", nonce),
        ("%SCRIPT%", &script),
    ];
    let mut page = String::with_capacity(data.len() + script.len() + STYLE.len() + FRAME.len());
    let mut rest = FRAME;
    for (mark, part) in parts {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(part);
        rest = after;
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_data_stay_data() {
        let page = page(
            "nonce-of-test",
            Some("{\"name\": \"</script><b>%SCRIPT%\"}"),
        );
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(page.contains("{\"name\": \"\\u003c/script>\\u003cb>%SCRIPT%\"}"));
        assert_eq!(page.matches("</script>").count(), 2);
        assert_eq!(page.matches("nonce-of-test").count(), 3);
        for word in ["%POLICY%", "%NONCE%", "%STYLE%", "%DATA%"] {
            assert!(!page.contains(word), "{word}");
        }
        // Texts of runs are set as texts; nothing is loaded from elsewhere.
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "https://",
        ] {
            assert!(!page.contains(word), "{word}");
        }
    }
}
