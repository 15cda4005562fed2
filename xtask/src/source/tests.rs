//! Code, comments, strings and test code are told apart.

use super::*;

#[test]
fn comments_and_literals_are_blank_and_lines_stay_where_they_were() {
    let text = "let a = \"x // y\"; // .unwrap()\n/* todo!( /* nested */ */ let b = 'c';\n\
                let r = r#\"quote \" inside\"#; let l: &'a str = b\"x\\\"y\";\n";
    let source = Source::new(text);
    assert_eq!(source.code.len(), text.len());
    assert_eq!(source.code.lines().count(), 3);
    for hidden in ["unwrap", "todo", "//", "quote", "inside", "nested", "x"] {
        assert!(!source.code.contains(hidden), "{hidden} in {}", source.code);
    }
    for kept in ["let a = \"", "let b = ' '", "let r = r#\"", "&'a str"] {
        assert!(source.code.contains(kept), "{kept} in {}", source.code);
    }
}

#[test]
fn an_escaped_quote_is_a_character_and_not_a_lifetime() {
    let source = Source::new("let a = ['\\'', '\"', '\\u{7f}']; call();\n");
    assert!(source.code.contains("call()"), "{}", source.code);
}

#[test]
fn items_under_cfg_test_are_not_seen() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { x(); }\n}\nfn c() {}\n\
                #[cfg(test)]\nmod cases;\n";
    let source = Source::new(text);
    let lines: Vec<usize> = source.code_lines().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 6]);
    assert_eq!(source.test_modules(), ["cases"]);
}

#[test]
fn code_after_a_test_function_is_seen_again() {
    let text = "impl A {\n    #[cfg(test)]\n    fn only(&self) -> [u8; 2] {\n        [0; 2]\n    }\n    fn b() {}\n}\n";
    let source = Source::new(text);
    let lines: Vec<usize> = source.code_lines().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 6, 7]);
}
