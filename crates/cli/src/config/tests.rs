//! Configuration as a person meets it: what is said about mistakes, and which layer wins.

use std::path::PathBuf;

use expect_test::{Expect, expect};

use super::layers::{Loaded, Origin, Sources, load};
use super::trust::TrustStore;
use super::types::{Config, Permission, Theme, Thinking, published_schema};

fn plugins() -> Vec<(String, bool)> {
    vec![("bash".to_owned(), false), ("models".to_owned(), true)]
}

struct Place {
    directory: tempfile::TempDir,
    sources: Sources,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("project/.bezel")).unwrap();
        let sources = Sources {
            user: root.join("config.toml"),
            directory: Some(root.join("project")),
            trust: root.join("trust.json"),
            ..Sources::default()
        };
        Place { directory, sources }
    }

    fn user(self, text: &str) -> Self {
        std::fs::write(&self.sources.user, text).unwrap();
        self
    }

    fn project(self, text: &str) -> Self {
        std::fs::write(self.project_file(), text).unwrap();
        self
    }

    fn project_file(&self) -> PathBuf {
        self.sources
            .directory
            .as_ref()
            .unwrap()
            .join(".bezel/config.toml")
    }

    fn trusted(self) -> Self {
        TrustStore::new(self.sources.trust.clone())
            .trust(self.sources.directory.as_ref().unwrap())
            .unwrap();
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources
            .environment
            .insert(name.to_owned(), value.to_owned());
        self
    }

    fn flag(mut self, flag: &'static str, key: &'static str, value: &str) -> Self {
        self.sources.flags.push((flag, key, value.to_owned()));
        self
    }

    fn load(&self) -> Loaded {
        load(&self.sources, plugins).unwrap_or_else(|error| panic!("{error}"))
    }

    fn errors(&self, expected: Expect) {
        let error = load(&self.sources, plugins).unwrap_err().to_string();
        let root = self.directory.path().canonicalize().unwrap();
        expected.assert_eq(&error.replace(&format!("{}/", root.display()), ""));
    }
}

#[test]
fn every_mistake_is_shown_at_its_line_with_a_suggestion() {
    let place = Place::new().user(
        r#"modle = "local::qwen"
thinking = "hihg"
theme = true
permission-mode = "plan"

[providers.local]
kind = "opnai"
base_url = "localhost:8080"
api_key_env = "sk-live-123"
[[providers.local.models]]
id = 7
context = "262144"
[[providers.local.models]]
name = "no id"

[server]
idle_exit_minutes = -1
[keys]
"ctrk+t" = "models.cycle-thinking"
[plugins.bash]
enabled = "true"
"#,
    );
    place.errors(expect![[r#"
        error: unknown key `modle`
         --> config.toml:1:1
          |
        1 | modle = "local::qwen"
          | ^^^^^ did you mean `model`?

        error: `thinking` cannot be "hihg"
         --> config.toml:2:12
          |
        2 | thinking = "hihg"
          |            ^^^^^^ did you mean "high"?

        error: `theme` must be text, not true or false
         --> config.toml:3:9
          |
        3 | theme = true
          |         ^^^^ one of auto, light, dark

        error: unknown key `permission-mode`
         --> config.toml:4:1
          |
        4 | permission-mode = "plan"
          | ^^^^^^^^^^^^^^^ did you mean `permission_mode`?

        error: `providers.local.kind` cannot be "opnai"
         --> config.toml:7:8
          |
        7 | kind = "opnai"
          |        ^^^^^^^ did you mean "openai"?

        error: `providers.local.base_url` must be an http or https URL
         --> config.toml:8:12
          |
        8 | base_url = "localhost:8080"
          |            ^^^^^^^^^^^^^^^^ for example "http://127.0.0.1:8080/v1"

        error: `providers.local.api_key_env` must be the name of an environment variable
         --> config.toml:9:15
          |
        9 | api_key_env = *************
          |               ^^^^^^^^^^^^^ letters, digits and `_` only: this is the variable's name, never the key itself

        error: `providers.local.models[0].id` must be text, not a whole number
          --> config.toml:11:6
           |
        11 | id = 7
           |      ^ put it in quotes: "7"

        error: `providers.local.models[0].context` must be a whole number, not text
          --> config.toml:12:11
           |
        12 | context = "262144"
           |           ^^^^^^^^ without quotes: 262144

        error: `providers.local.models[1]` needs `id`
          --> config.toml:13:1
           |
        13 | [[providers.local.models]]
           | ^^^^^^^^^^^^^^^^^^^^^^^^^^ add it here

        error: `server.idle_exit_minutes` cannot be -1
          --> config.toml:17:21
           |
        17 | idle_exit_minutes = -1
           |                     ^^ from 0 to 525600

        error: `ctrk+t` is not a key chord
          --> config.toml:19:1
           |
        19 | "ctrk+t" = "models.cycle-thinking"
           | ^^^^^^^^ "ctrk+t" is not a key: "ctrk" is no modifier (ctrl, alt, shift, super); write for example "ctrl+t", "shift+tab", "f2" or "ctrl+x s"

        error: `plugins.bash.enabled` must be true or false, not text
          --> config.toml:21:11
           |
        21 | enabled = "true"
           |           ^^^^^^ without quotes: true"#]]);
}

#[test]
fn a_broken_file_names_the_line() {
    Place::new()
        .user("model = \"a::b\"\nthinking = \n[tui\nmouse = true\n")
        .errors(expect![[r#"
        error: this is not TOML: string values must be quoted, expected literal string
         --> config.toml:2:12
          |
        2 | thinking = 
          |            ^

        error: this is not TOML: unclosed table, expected `]`
         --> config.toml:3:5
          |
        3 | [tui
          |     ^"#]]);
}

#[test]
fn what_the_layers_come_to_together_is_checked_too() {
    let place = Place::new()
        .user("[providers.local]\nbase_url = \"http://127.0.0.1/v1\"\napi_key_env = \"KEY\"\n[plugins.bsh]\n[plugins.models]\nenabled = false\n[retry]\nmax_delay_ms = 5\n")
        .project("[providers.local]\napi_key_command = \"pass show key\"\n[retry]\nbase_delay_ms = 10\n")
        .trusted();
    place.errors(expect![[r#"
        error: provider `local` needs a `kind`
         --> project/.bezel/config.toml:1:12
          |
        1 | [providers.local]
          |            ^^^^^ add for example `kind = "openai"`

        error: provider `local` has both `api_key_env` and `api_key_command`
         --> project/.bezel/config.toml:2:1
          |
        2 | api_key_command = "pass show key"
          | ^^^^^^^^^^^^^^^ keep one of them

        error: there is no plugin `bsh`
         --> config.toml:4:10
          |
        4 | [plugins.bsh]
          |          ^^^ did you mean `bash`?

        error: plugin `models` is part of the product and cannot be switched off
         --> config.toml:6:1
          |
        6 | enabled = false
          | ^^^^^^^ remove this line

        error: `retry.base_delay_ms` (10) is above `retry.max_delay_ms` (5)
         --> project/.bezel/config.toml:4:1
          |
        4 | base_delay_ms = 10
          | ^^^^^^^^^^^^^ lower this one or raise the other"#]]);
}

#[test]
fn a_mistake_in_a_variable_or_a_flag_names_it() {
    let place = Place::new()
        .variable("BEZEL_THINKING", "hihg")
        .variable("BEZEL_TUI_MOUSE", "yes")
        .variable("BEZEL_SESSION_IDLE_EXIT_MINUTES", "abc")
        .variable("BEZEL_SERVER_IDLE_EXIT_MINUTES", "5\nfoo = 1")
        .flag("--model", "model", "qwen");
    place.errors(expect![[r#"
        error: `thinking` cannot be "hihg"
          --> environment variable BEZEL_THINKING
           = did you mean "high"?

        error: `server.idle_exit_minutes` must be a whole number, not text
          --> environment variable BEZEL_SERVER_IDLE_EXIT_MINUTES

        error: `session.idle_exit_minutes` cannot be "abc"
          --> environment variable BEZEL_SESSION_IDLE_EXIT_MINUTES
           = it takes a whole number, for example 10

        error: `tui.mouse` cannot be "yes"
          --> environment variable BEZEL_TUI_MOUSE
           = it takes true or false

        error: `model` must be a model name
          --> flag --model
           = write PROVIDER::MODEL; `bezel models` lists what is configured"#]]);
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_and_a_missing_one_is_none() {
    let place = Place::new();
    assert_eq!(place.load().config, Config::default());
    std::fs::create_dir(&place.sources.user).unwrap();
    place.errors(expect![[r#"
        error: the configuration file cannot be read: Is a directory (os error 21)
          --> config.toml
           = make it a readable file, or remove it"#]]);
    std::fs::remove_dir(&place.sources.user).unwrap();
    std::fs::write(&place.sources.user, b"model = \"\xff\"").unwrap();
    place.errors(expect![[r#"
        error: the configuration file cannot be read: stream did not contain valid UTF-8
          --> config.toml
           = save it as UTF-8"#]]);
}

#[test]
fn a_model_of_a_provider_that_is_not_there_is_a_mistake() {
    let provider = "[providers.local]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let place = Place::new().user(&format!("model = \"locl::qwen3-coder\"\n{provider}"));
    place.errors(expect![[r#"
        error: `model` names the provider `locl`, which is not there
         --> config.toml:1:1
          |
        1 | model = "locl::qwen3-coder"
          | ^^^^^ did you mean "local::qwen3-coder"?"#]]);
    for model in ["local::any", "anthropic::new-one", "scripted::tour"] {
        let place = Place::new().user(&format!("model = \"{model}\"\n{provider}"));
        assert_eq!(place.load().config.model.as_deref(), Some(model));
    }
}

#[test]
fn a_layer_that_cannot_be_read_makes_no_provider_missing() {
    let place = Place::new()
        .user("thinking = 3\n[providers.local]\nkind = \"openai\"\n")
        .variable("BEZEL_MODEL", "local::m");
    let error = load(&place.sources, plugins).unwrap_err().to_string();
    assert_eq!(error.matches("error: ").count(), 1, "{error}");
}

#[test]
fn a_later_layer_wins_and_says_where_a_value_came_from() {
    let place = Place::new()
        .user("model = \"a::user\"\nthinking = \"low\"\ntheme = \"dark\"\npermission_mode = \"plan\"\n[providers.a]\nkind = \"openai\"\nheaders = { x = \"1\", y = \"2\" }\n")
        .project("\nthinking = \"medium\"\n[providers.a.headers]\ny = \"3\"\n")
        .trusted()
        .variable("BEZEL_MODEL", "a::variable")
        .variable("BEZEL_THEME", "light")
        .variable("BEZEL_TUI_MOUSE", "false")
        .variable("BEZEL_PERMISSION_MODE", "")
        .flag("--model", "model", "a::flag");
    let loaded = place.load();
    let config = &loaded.config;
    assert_eq!(config.model.as_deref(), Some("a::flag"));
    assert_eq!(config.thinking, Some(Thinking::Medium));
    assert_eq!(config.theme, Theme::Light);
    assert_eq!(config.permission_mode, Some(Permission::Plan));
    assert!(!config.tui.mouse);
    let headers = &config.providers["a"].headers;
    assert_eq!((headers["x"].as_str(), headers["y"].as_str()), ("1", "3"));
    assert_eq!(loaded.origins["model"], Origin::Flag("--model"));
    assert_eq!(loaded.origins["theme"], Origin::Variable("BEZEL_THEME"));
    assert_eq!(
        loaded.origins["thinking"],
        Origin::File {
            file: place.project_file(),
            line: 2
        }
    );
    assert_eq!(
        loaded.origins["providers.a.headers.x"],
        Origin::File {
            file: place.sources.user.clone(),
            line: 7
        }
    );
    assert_eq!(
        loaded.files,
        [place.sources.user.clone(), place.project_file()]
    );
}

#[test]
fn a_project_that_is_not_trusted_changes_nothing_and_is_named() {
    let place = Place::new().project("model = \"evil::model\"\nnonsense = 1\n");
    let loaded = place.load();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.untrusted, Some(place.project_file()));
}

#[test]
fn the_project_file_is_found_from_below_and_not_beyond_the_repository() {
    let mut place = Place::new().project("theme = \"dark\"\n").trusted();
    let project = place.sources.directory.clone().unwrap();
    std::fs::create_dir_all(project.join("crates/x")).unwrap();
    place.sources.directory = Some(project.join("crates/x"));
    assert_eq!(place.load().config.theme, Theme::Dark);
    std::fs::create_dir(project.join("crates/.git")).unwrap();
    assert_eq!(place.load().config.theme, Theme::Auto);
}

#[test]
fn the_published_schema_is_the_one_that_is_checked() {
    let file = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/config.schema.json"
    ));
    let current = published_schema();
    if std::env::var_os("BEZEL_BLESS").is_some() {
        std::fs::write(&file, &current).unwrap();
    }
    let published = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        published == current,
        "docs/config.schema.json is out of date: run this test with BEZEL_BLESS=1"
    );
}

#[test]
fn the_example_of_the_handbook_is_valid() {
    let place = Place::new().user(
        r#"
model = "local::qwen3-coder"
[providers.local]
kind = "openai"
base_url = "http://127.0.0.1:8080/v1"
api_key_env = "LOCAL_KEY"
[[providers.local.models]]
id = "qwen3-coder"
context = 262144
prices = { input = 0.5, output = 1 }
[plugins.bash.config]
since = 2026-01-01
nested = { list = [1, 2.5, "x"] }
"#,
    );
    let config = place.load().config;
    assert_eq!(config.providers["local"].models[0].context, Some(262_144));
    let bash = serde_json::to_value(&config.plugins["bash"].config).unwrap();
    assert_eq!(
        bash,
        serde_json::json!({ "since": "2026-01-01", "nested": { "list": [1, 2.5, "x"] } })
    );
}
