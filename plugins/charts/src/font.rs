//! A bitmap font of three by five pixels for captions in pictures.

/// Width of a letter in pixels.
pub(crate) const WIDTH: usize = 3;

/// Height of a letter in pixels.
pub(crate) const HEIGHT: usize = 5;

/// Returns whether the letter has ink at `x` from its left and `y` from its top. Lower-case letters look
/// like capitals, and unsupported characters like a question mark.
pub(crate) fn ink(letter: char, x: usize, y: usize) -> bool {
    x < WIDTH && y < HEIGHT && rows(letter) >> (14 - y * WIDTH - x) & 1 == 1
}

/// Returns the rows of a letter from the top, one octal digit each.
fn rows(letter: char) -> u16 {
    match letter.to_ascii_uppercase() {
        ' ' => 0,
        '0' => 0o75557,
        '1' => 0o26227,
        '2' => 0o71747,
        '3' => 0o71717,
        '4' => 0o55711,
        '5' => 0o74717,
        '6' => 0o74757,
        '7' => 0o71222,
        '8' => 0o75757,
        '9' => 0o75717,
        'A' => 0o25755,
        'B' => 0o65656,
        'C' => 0o34443,
        'D' => 0o65556,
        'E' => 0o74647,
        'F' => 0o74644,
        'G' => 0o34553,
        'H' => 0o55755,
        'I' => 0o72227,
        'J' => 0o11152,
        'K' => 0o55655,
        'L' => 0o44447,
        'M' => 0o57755,
        'N' => 0o65555,
        'O' => 0o25552,
        'P' => 0o65644,
        'Q' => 0o25573,
        'R' => 0o65655,
        'S' => 0o34216,
        'T' => 0o72222,
        'U' => 0o55557,
        'V' => 0o55552,
        'W' => 0o55775,
        'X' => 0o55255,
        'Y' => 0o55222,
        'Z' => 0o71247,
        '.' => 0o00002,
        ',' => 0o00024,
        ':' => 0o02020,
        '-' => 0o00700,
        '+' => 0o02720,
        '=' => 0o07070,
        '_' => 0o00007,
        '/' => 0o11244,
        '%' => 0o51245,
        '>' => 0o42124,
        '<' => 0o12421,
        '(' => 0o12221,
        ')' => 0o42224,
        '!' => 0o22202,
        '#' => 0o57575,
        '\'' => 0o22000,
        '|' => 0o22222,
        _ => 0o71202,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_what_they_should_look_like() {
        let drawn = |letter| -> Vec<String> {
            let row = |y| {
                (0..WIDTH)
                    .map(|x| if ink(letter, x, y) { '#' } else { '.' })
                    .collect()
            };
            (0..HEIGHT).map(row).collect()
        };
        assert_eq!(drawn('7'), ["###", "..#", ".#.", ".#.", ".#."]);
        assert_eq!(drawn('e'), ["###", "#..", "##.", "#..", "###"]);
        assert_eq!(drawn('é'), drawn('?'));
    }

    #[test]
    fn no_two_letters_look_alike() {
        let letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.,:-+=_/%><()!#'|? ";
        let mut rows: Vec<_> = letters.chars().map(rows).collect();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), letters.len());
    }
}
