//! The mistakes that beginners make, and those that would be unsound, end as compile errors that
//! say what to do.

#[test]
fn mistakes_are_told_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
