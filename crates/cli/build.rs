//! Packs the relative relocations of the program, where the machine that builds can load them.
//!
//! Forty thousand of them are a megabyte that each process reads at its start, and a tenth of that packed.
//! The C library of the machine that runs the program must be as new as the one here, which it must be for
//! its other symbols too.

use std::process::Command;

/// The first glibc that loads packed relocations.
const GLIBC: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let native = of("HOST") == of("TARGET") && of("TARGET").ends_with("-linux-gnu");
    if native && glibc().is_some_and(|version| version >= GLIBC) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
