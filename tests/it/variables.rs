//! Values of environment variables without a meaning are errors.

use sconce_tests::{Workplace, tiny};

#[test]
fn a_value_that_means_nothing_is_refused_with_those_that_do() {
    let place = Workplace::new(&[]);
    place.write(&tiny());
    for (name, bad, words, good) in [
        (
            "SCONCE_LOAD_LIMIT",
            "x",
            "a number of seconds above 0",
            "2.5",
        ),
        ("SCONCE_LOAD_LIMIT", "0", "a number of seconds above 0", ""),
        ("SCONCE_RELOAD_EVERY", "-1", "a whole number above 0", "3"),
        ("SCONCE_ISOLATE", "yes", "`all` or `none`", "none"),
        ("SCONCE_HOOK_COPIES", "1", "`always`", "always"),
        ("SCONCE_CORE", "true", "`0` or `1`", "0"),
        (
            "SCONCE_INSTRUCTIONS",
            "sse",
            "`baseline` or `avx2` or `avx512`",
            "avx512",
        ),
        ("SCONCE_OPS", "fused", "`composed`", ""),
        (
            "SCONCE_DATA_HASH",
            "sometimes",
            "`cached` or `always`",
            "always",
        ),
    ] {
        let check = |value| place.sconce_in(&["check", "manifest.json"], &[(name, value)]);
        check(bad).expect(2, &[name, words, &format!("not `{bad}`")]);
        check(good).expect(0, &[]);
    }
}
