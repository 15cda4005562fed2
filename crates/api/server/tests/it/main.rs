//! What is out of a server facet's reach, held by the compiler.

#[test]
fn a_facet_cannot_name_what_stays_with_the_host() {
    trybuild::TestCases::new().compile_fail("tests/walls/*.rs");
}
