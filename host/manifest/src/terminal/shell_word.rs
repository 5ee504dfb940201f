//! Words of the command lines that messages suggest: people copy them into a shell.

use std::borrow::Cow;

/// Quotes a word for a shell if necessary.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    // `shlex` also quotes `=`, `,` and `%`, which mean nothing within an argument: `--set train.epochs=3` reads better
    // as it was typed.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    // Nothing can quote a null character, and neither arguments nor paths can contain one.
    shlex::try_quote(word).unwrap_or(Cow::Borrowed(word))
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn what_a_shell_would_change_is_quoted_and_nothing_else() {
        for (word, quoted) in [
            ("train.epochs=3", "train.epochs=3"),
            ("out/a-1_b:c,d+e@f%", "out/a-1_b:c,d+e@f%"),
            ("model.hidden=[8]", "'model.hidden=[8]'"),
            ("my run.json", "'my run.json'"),
            ("it's", "\"it's\""),
            ("it's $HOME", "\"it's \"'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), quoted);
            assert_eq!(shlex::split(quoted), Some(vec![word.to_owned()]));
        }
    }
}
