//! What `#[service]` refuses, and what the compiler prints then.
//!
//! The compiler gets the macro as cargo built it for these tests; nothing else is compiled. This crate
//! takes no dependency for its tests: those of a proc macro are resolved with the build tools of the
//! whole workspace, whose features would then differ between a build of the tests and one of the product.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Each `tests/ui/NAME.rs` is refused with the text of `NAME.stderr`; `UPDATE_EXPECT=1` writes that text.
#[test]
fn a_trait_that_is_no_contract_is_refused_with_what_to_write() {
    let library = built_macro();
    let sources = files("tests/ui", |name| name.ends_with(".rs"));
    assert!(!sources.is_empty(), "no source in tests/ui");
    for source in sources {
        let printed = refusal(&library, &source);
        let expected = source.with_extension("stderr");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&expected, &printed).unwrap();
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(printed, expected, "for {}", source.display());
    }
}

/// What the compiler prints for a source that it refuses, less its last line, which counts.
fn refusal(library: &Path, source: &Path) -> String {
    let mut external = std::ffi::OsString::from("bezel_rpc_macros=");
    external.push(library);
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--emit=metadata", "--color=never"])
        .args(["--out-dir", env!("CARGO_TARGET_TMPDIR"), "--extern"])
        .arg(external)
        .arg(source)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("rustc starts");
    let printed = String::from_utf8(output.stderr).expect("rustc prints UTF-8");
    assert!(
        !output.status.success(),
        "{} compiles\n{printed}",
        source.display()
    );
    match printed.split_once("\nerror: aborting due to") {
        Some((errors, _)) => errors.to_owned(),
        None => printed,
    }
}

/// The macro's library beside this test. Other feature sets and compilers may have left theirs there:
/// cargo built the newest for this run.
fn built_macro() -> PathBuf {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    let test = std::env::current_exe().expect("the path of this test");
    let folder = test.parent().expect("a program lies in a folder");
    let prefix = format!("{DLL_PREFIX}bezel_rpc_macros-");
    files(folder, |name| {
        name.starts_with(&prefix) && name.ends_with(DLL_SUFFIX)
    })
    .into_iter()
    .max_by_key(|library| library.metadata().and_then(|file| file.modified()).ok())
    .expect("cargo builds the macro before its tests")
}

fn files(folder: impl AsRef<Path>, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| wanted(&path.file_name().unwrap_or_default().to_string_lossy()))
        .collect();
    files.sort();
    files
}
