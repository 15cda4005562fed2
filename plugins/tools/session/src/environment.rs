//! The launching shell's variables, without the keys of model providers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Keys that the well-known model providers read. A command that a model wrote has no use for them.
/// Tokens of other services stay: `git`, `gh`, `aws` and the project's own tests need theirs.
const PROVIDER_KEYS: &[&str] = &[
    "AI_GATEWAY_API_KEY",
    "ALIYUN_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "BAILIAN_API_KEY",
    "BIGMODEL_API_KEY",
    "CEREBRAS_API_KEY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CODEX_API_KEY",
    "COHERE_API_KEY",
    "CO_API_KEY",
    "DASHSCOPE_API_KEY",
    "DEEPINFRA_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROQ_API_KEY",
    "KIMI_API_KEY",
    "MIMO_API_KEY",
    "MINIMAX_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "NEBIUS_API_KEY",
    "NVIDIA_API_KEY",
    "OLLAMA_API_KEY",
    "OPENAI_API_KEY",
    "OPENCODE_API_KEY",
    "OPENROUTER_API_KEY",
    "PERPLEXITY_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
    "ZHIPU_API_KEY",
];

/// Values this short are words such as `true` and no secrets.
const SHORTEST_SECRET: usize = 8;

/// What keeps a command from waiting for a person: no pager, no prompt, no colours.
const UNATTENDED: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GH_PROMPT_DISABLED", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// What changes where a shell goes, which files a pattern finds or what a search looks into: commands are judged by what
/// their words say. Exported, they were meant for the person's own shell.
const STEERING: &[&str] = &[
    "BASHOPTS",
    "BASH_COMPAT",
    "CDPATH",
    "GLOBIGNORE",
    "GREP_OPTIONS",
    "POSIXLY_CORRECT",
    "RIPGREP_CONFIG_PATH",
    "SHELLOPTS",
];

/// The variables that commands get. Immutable: one for each session.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl std::fmt::Debug for Environment {
    /// Names only: the values are the person's own.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_set()
            .entries(self.variables.keys())
            .finish()
    }
}

impl Environment {
    /// The launching shell's variables without provider keys: those of well-known providers, those that
    /// the configuration names (`configured`), and copies of either under another name.
    pub fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        configured: impl IntoIterator<Item = String>,
    ) -> Self {
        let mut variables: BTreeMap<OsString, OsString> = variables.into_iter().collect();
        let names = PROVIDER_KEYS.iter().map(|name| OsString::from(*name));
        let names = names.chain(configured.into_iter().map(OsString::from));
        let secrets: Vec<OsString> = names.filter_map(|name| variables.remove(&name)).collect();
        variables.retain(|_, value| {
            !secrets
                .iter()
                .any(|secret| secret.len() >= SHORTEST_SECRET && secret == value)
        });
        for name in STEERING {
            variables.remove(OsStr::new(name));
        }
        for (name, value) in UNATTENDED {
            variables.insert(name.into(), value.into());
        }
        Environment { variables }
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
    }

    /// Everything that a command gets.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The person's home directory, where `HOME` names one.
    pub fn home(&self) -> Option<&Path> {
        self.get("HOME")
            .filter(|home| !home.is_empty())
            .map(Path::new)
    }

    /// True when the shell would take code from the environment before it runs a command.
    pub(crate) fn defines_shell_code(&self) -> bool {
        self.variables.keys().any(|name| {
            name == "BASH_ENV" || name == "ENV" || name.as_bytes().starts_with(b"BASH_FUNC_")
        })
    }

    /// The executable file that a name means, as a shell would find it. Relative directories in `PATH`
    /// count from `directory`.
    pub(crate) fn find_program(&self, name: &str, directory: &Path) -> Option<PathBuf> {
        let usable = |path: &Path| {
            let executable = rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
            executable && path.is_file()
        };
        if name.contains('/') {
            let path = directory.join(name);
            return usable(&path).then_some(path);
        }
        let search = self.get("PATH")?;
        std::env::split_paths(search)
            .map(|folder| directory.join(folder).join(name))
            .find(|path| usable(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)], configured: &[&str]) -> Environment {
        let variables = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        Environment::new(variables, configured.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn provider_keys_and_their_copies_go_and_other_tokens_stay() {
        let environment = environment(
            &[
                ("OPENAI_API_KEY", "sk-secret-value"),
                ("MY_COPY", "sk-secret-value"),
                ("LOCAL_KEY", "on"),
                ("FEATURE", "on"),
                ("GITHUB_TOKEN", "ghp"),
                ("STRIPE_API_KEY", "rk"),
                ("AWS_SECRET_ACCESS_KEY", "aws"),
                ("HOME", "/home/a"),
            ],
            &["LOCAL_KEY"],
        );
        for gone in ["OPENAI_API_KEY", "MY_COPY", "LOCAL_KEY"] {
            assert_eq!(environment.get(gone), None, "{gone}");
        }
        for kept in [
            "FEATURE",
            "GITHUB_TOKEN",
            "STRIPE_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "HOME",
        ] {
            assert!(environment.get(kept).is_some(), "{kept}");
        }
        assert!(!format!("{environment:?}").contains("ghp"));
    }

    #[test]
    fn what_steers_shells_and_searches_does_not_reach_commands() {
        let exported: Vec<_> = STEERING.iter().map(|name| (*name, "..")).collect();
        let environment = environment(&exported, &[]);
        for name in ["CDPATH", "GLOBIGNORE", "BASHOPTS", "RIPGREP_CONFIG_PATH"] {
            assert_eq!(environment.get(name), None, "{name}");
        }
    }

    #[test]
    fn shell_code_in_the_environment_is_noticed() {
        assert!(!environment(&[("PATH", "/bin")], &[]).defines_shell_code());
        assert!(environment(&[("BASH_FUNC_ls%%", "() { :; }")], &[]).defines_shell_code());
        assert!(environment(&[("BASH_ENV", "/x")], &[]).defines_shell_code());
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let environment = environment(&[("PATH", "/nonexistent:/bin:/usr/bin")], &[]);
        let here = Path::new("/");
        assert_eq!(
            environment.find_program("sh", here),
            Some(PathBuf::from("/bin/sh"))
        );
        assert_eq!(
            environment.find_program("bin/sh", here),
            Some(PathBuf::from("/bin/sh"))
        );
        assert_eq!(environment.find_program("no-such-program", here), None);
        assert_eq!(environment.find_program("/etc", here), None);
    }
}
