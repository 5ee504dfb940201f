//! Common mistakes and unsound uses are compile errors whose messages say what to do.
//!
//! No case may have a message that shows a part of the standard library: the compiler prints it only where the
//! component `rust-src` is installed. (That a view does not cross threads is a `compile_fail` example of `TaskView`.)

#[test]
fn mistakes_are_reported_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
