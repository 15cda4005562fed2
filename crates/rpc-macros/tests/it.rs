//! What `#[service]` refuses, and what it says.

#[test]
fn a_trait_that_is_no_contract_is_refused_with_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
