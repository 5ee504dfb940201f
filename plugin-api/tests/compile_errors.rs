//! Common mistakes and unsound uses are compile errors whose messages say what to do.

#[test]
fn mistakes_are_reported_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
