//! Files that are asked for also where their like is not: what may hold secrets, and what steers git or Bezel.

use std::path::{Component, Path};

use crate::place::Resolved;

/// Why a path may hold secrets, by its name or by that of what it leads to.
pub(crate) fn secret(path: &Resolved) -> Option<&'static str> {
    let named = [&path.given, &path.real];
    let is_secret = |path: &Path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(holds_secrets)
    };
    named
        .into_iter()
        .any(|path| is_secret(path))
        .then_some("it may hold secrets")
}

fn holds_secrets(name: &str) -> bool {
    const EXAMPLES: [&str; 5] = [".example", ".sample", ".template", ".dist", ".defaults"];
    const NAMES: [&str; 9] = [
        ".envrc",
        ".netrc",
        ".pgpass",
        ".git-credentials",
        ".htpasswd",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
    ];
    const ENDINGS: [&str; 6] = [".pem", ".p12", ".pfx", ".kdbx", ".keystore", ".jks"];
    let environment = (name == ".env" || name.starts_with(".env."))
        && !EXAMPLES.iter().any(|ending| name.ends_with(ending));
    environment || NAMES.contains(&name) || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Why changing a path changes more than a file of the project.
pub(crate) fn steering(path: &Resolved) -> Option<&'static str> {
    let inside = |path: &Path, folder: &str| {
        path.components()
            .any(|component| component == Component::Normal(folder.as_ref()))
    };
    let named = [&path.given, &path.real];
    if named.iter().any(|path| inside(path, ".git")) {
        return Some("git runs what stands there");
    }
    if named.iter().any(|path| inside(path, ".bezel")) {
        return Some("it decides what Bezel may do");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(given: &str, real: &str) -> Resolved {
        Resolved {
            given: given.into(),
            real: real.into(),
        }
    }

    #[test]
    fn secrets_are_known_by_either_name() {
        for name in [".env", ".env.local", "server.pem", "id_ed25519"] {
            assert!(
                secret(&path(&format!("/a/{name}"), "/a/x")).is_some(),
                "{name}"
            );
            assert!(
                secret(&path("/a/x", &format!("/b/{name}"))).is_some(),
                "{name}"
            );
        }
        for name in [".env.example", "env", ".environment", "pem"] {
            let named = format!("/a/{name}");
            assert!(secret(&path(&named, &named)).is_none(), "{name}");
        }
    }

    #[test]
    fn what_steers_git_or_bezel_is_known_by_its_folder() {
        assert!(steering(&path("/a/.git/hooks/x", "/a/.git/hooks/x")).is_some());
        assert!(steering(&path("/a/x", "/a/.bezel/config.toml")).is_some());
        assert!(steering(&path("/a/.gitignore", "/a/.gitignore")).is_none());
    }
}
