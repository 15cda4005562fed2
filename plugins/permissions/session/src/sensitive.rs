//! Files that are asked for also where their like is not: what may hold secrets, and what steers git or Bezel.

use std::path::{Component, Path};

use crate::place::Resolved;

/// Why a path may hold secrets, by its name or by that of what it leads to.
pub(crate) fn secret(path: &Resolved) -> Option<&'static str> {
    let named = [&path.given, &path.real];
    let is_secret = |path: &Path| {
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_lowercase());
        let folder = path.parent().and_then(name).unwrap_or_default();
        name(path).is_some_and(|name| holds_secrets(&folder, &name))
    };
    named
        .into_iter()
        .any(|path| is_secret(path))
        .then_some("it may hold secrets")
}

/// Whether a file of this name, in a folder of that one, may hold secrets; both in small letters. A copy may as well.
fn holds_secrets(folder: &str, name: &str) -> bool {
    const EXAMPLES: [&str; 5] = [
        ".env.example",
        ".env.sample",
        ".env.template",
        ".env.dist",
        ".env.defaults",
    ];
    const NAMES: [&str; 10] = [
        ".envrc",
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
        ".my.cnf",
        ".git-credentials",
        ".htpasswd",
        ".vault-token",
    ];
    const IN_FOLDERS: [(&str, &str); 7] = [
        (".aws", "credentials"),
        (".aws", "config"),
        (".cargo", "credentials.toml"),
        (".docker", "config.json"),
        (".kube", "config"),
        (".gem", "credentials"),
        ("gh", "hosts.yml"),
    ];
    const KEYS: [&str; 4] = ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"];
    const ENDINGS: [&str; 9] = [
        ".env",
        ".key",
        ".pem",
        ".ppk",
        ".p12",
        ".pfx",
        ".kdbx",
        ".keystore",
        ".jks",
    ];
    const COPIES: [&str; 7] = [".bak", ".old", ".orig", ".save", ".swp", ".backup", "~"];
    let mut name = name;
    while let Some(first) = COPIES.iter().find_map(|copy| name.strip_suffix(copy)) {
        name = first;
    }
    let environment = name.starts_with(".env.") && !EXAMPLES.contains(&name);
    let key = KEYS.iter().any(|key| name.starts_with(key)) && !name.ends_with(".pub");
    environment
        || key
        || NAMES.contains(&name)
        || IN_FOLDERS.contains(&(folder, name))
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
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
        for name in [
            ".env",
            ".env.local",
            ".env.local.example",
            ".ENV",
            ".env~",
            ".env.bak",
            "prod.env",
            "server.pem",
            "A.PEM",
            "server.key",
            "x.ppk",
            "id_ed25519",
            "id_ed25519_sk",
            "id_rsa.bak",
            ".npmrc",
            ".pypirc",
            ".aws/credentials",
            ".docker/config.json",
            ".kube/config",
        ] {
            assert!(
                secret(&path(&format!("/a/{name}"), "/a/x")).is_some(),
                "{name}"
            );
            assert!(
                secret(&path("/a/x", &format!("/b/{name}"))).is_some(),
                "{name}"
            );
        }
        for name in [
            ".env.example",
            "env",
            ".environment",
            "pem",
            "id_rsa.pub",
            "config.json",
            "key",
        ] {
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
