//! `bezel config`: what holds, where it comes from, whether it is right, and who may change it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::agents;
use crate::arguments::ConfigCommand;
use crate::config::{self, ConfigErrors, Diagnostic, Loaded, Origin, Place, Sources, TrustStore};
use crate::failure::{Exit, Failure, Outcome};
use crate::manifest;
use crate::setup::{Setup, untrusted_notice};

/// Runs the command.
pub fn run(command: ConfigCommand) -> Outcome {
    let setup = Setup::new(None)?;
    let mut out = io::stdout().lock();
    match command {
        ConfigCommand::Show { json } => show(&setup.load(Vec::new())?, json, &mut out)?,
        ConfigCommand::Check { file } => return check(&setup, file, &mut out),
        ConfigCommand::Path { json } => path(&setup, json, &mut out)?,
        ConfigCommand::Trust { directory } => {
            let project = project(&setup, directory);
            let full = TrustStore::new(setup.paths.trust())
                .trust(&project)
                .map_err(Failure::failed)?;
            writeln!(
                out,
                "{} is trusted: the config.toml and the agents in its .bezel are used, and those in every .bezel \
                 below it",
                full.display()
            )?;
        }
        ConfigCommand::Untrust { directory } => {
            let project = project(&setup, directory);
            let (full, was) = TrustStore::new(setup.paths.trust())
                .untrust(&project)
                .map_err(Failure::failed)?;
            let what = if was {
                "is no longer trusted"
            } else {
                "was not trusted"
            };
            writeln!(out, "{} {what}", full.display())?;
        }
        ConfigCommand::Schema => out.write_all(config::published_schema().as_bytes())?,
    }
    Ok(Exit::Done)
}

/// The directory that was named, else the project around this one.
fn project(setup: &Setup, directory: Option<PathBuf>) -> PathBuf {
    match directory {
        Some(directory) => setup.directory.join(directory),
        None => config::project_file(&setup.directory).map_or_else(
            || setup.directory.clone(),
            |file| config::project_of(&file).to_owned(),
        ),
    }
}

fn check(setup: &Setup, file: Option<PathBuf>, out: &mut dyn Write) -> Outcome {
    let loaded = match file {
        None => setup.load(Vec::new())?,
        Some(file) => {
            let user = setup.directory.join(file);
            if !user.exists() {
                return Err(Failure::usage(anyhow::anyhow!(
                    "there is no file {}",
                    user.display()
                )));
            }
            config::load(
                &Sources {
                    user,
                    ..Sources::default()
                },
                manifest::plugins,
            )?
        }
    };
    let mut wrong = plugin_mistakes(setup, &loaded);
    wrong.extend(agent_mistake(setup, &loaded)?);
    if !wrong.is_empty() {
        return Err(Failure::usage(ConfigErrors(wrong)));
    }
    for file in &loaded.files {
        writeln!(out, "{} is valid", file.display())?;
    }
    if loaded.files.is_empty() {
        writeln!(
            out,
            "There is no configuration file; {} would be read",
            setup.paths.config.display()
        )?;
    }
    if let Some(file) = &loaded.untrusted {
        writeln!(out, "{}", untrusted_notice(file))?;
    }
    Ok(Exit::Done)
}

/// What plugins cannot read of what the configuration has for them.
fn plugin_mistakes(setup: &Setup, loaded: &Loaded) -> Vec<Diagnostic> {
    let mistakes = manifest::mistakes(&loaded.config, &setup.paths).into_iter();
    let diagnostics = mistakes.map(|(id, message)| {
        let table = format!("{}.config", config::join("plugins", &id));
        // The reader names the key that it does not know in front of those that it does.
        let key = message.split('`').nth(1);
        let key = key.map(|key| config::join(&table, key));
        let path = key.filter(|key| loaded.origins.contains_key(key));
        let path = path.unwrap_or(table);
        Diagnostic {
            message: format!("plugin `{id}` cannot be configured so: {message}"),
            hint: None,
            place: place(loaded, &path),
        }
    });
    diagnostics.collect()
}

/// That the configured agent is not there, or is none to begin a session with.
fn agent_mistake(setup: &Setup, loaded: &Loaded) -> Outcome<Option<Diagnostic>> {
    let Some(name) = &loaded.config.agent else {
        return Ok(None);
    };
    let places = agents::places(&setup.sources(Vec::new()))?;
    let catalogue = bezel_dist_session::agents(&places.directories);
    let refusal = agents::refusal(&catalogue, name);
    Ok(refusal.map(|reason| Diagnostic {
        message: format!("new sessions would run nothing: {reason}"),
        hint: None,
        place: place(loaded, "agent"),
    }))
}

/// Where a key was set, as far as the layers say.
fn place(loaded: &Loaded, path: &str) -> Place {
    let origin = loaded.origins.get(path);
    Place::Named(origin.map_or_else(|| path.to_owned(), ToString::to_string))
}

fn path(setup: &Setup, as_json: bool, out: &mut dyn Write) -> Outcome<()> {
    let paths = &setup.paths;
    let project = config::project_file(&setup.directory);
    let socket = paths.run.join("server.sock");
    let rows: [(&str, Option<&Path>); 7] = [
        ("config", Some(&paths.config)),
        ("project", project.as_deref()),
        ("data", Some(&paths.data)),
        ("run", Some(&paths.run)),
        ("socket", Some(&socket)),
        ("logs", Some(&paths.logs)),
        ("state", Some(&paths.state)),
    ];
    if as_json {
        let object: Map<String, Value> = rows
            .iter()
            .map(|(name, path)| ((*name).to_owned(), json!(path)))
            .collect();
        writeln!(out, "{}", Value::Object(object))?;
        return Ok(());
    }
    for (name, path) in rows {
        if let Some(path) = path {
            writeln!(out, "{name:<8} {}", path.display())?;
        }
    }
    Ok(())
}

fn show(loaded: &Loaded, as_json: bool, out: &mut dyn Write) -> Outcome<()> {
    let mut values = serde_json::to_value(&loaded.config).map_err(Failure::failed)?;
    mask_headers(&mut values);
    if as_json {
        let origins: Map<String, Value> = loaded
            .origins
            .iter()
            .map(|(path, origin)| (path.clone(), Value::String(origin.to_string())))
            .collect();
        let object = json!({
            "config": values,
            "origins": origins,
            "files": loaded.files,
            "untrusted": loaded.untrusted,
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    let mut lines = Vec::new();
    flatten("", &values, &mut lines);
    let width = lines
        .iter()
        .map(|(path, value)| path.len() + value.len() + 3)
        .max()
        .unwrap_or(0)
        .min(60);
    for (path, value) in lines {
        let origin = loaded
            .origins
            .get(&path)
            .map_or_else(|| "default".to_owned(), ToString::to_string);
        let setting = format!("{path} = {value}");
        writeln!(out, "{setting:<width$}  # {origin}")?;
    }
    if let Some(file) = &loaded.untrusted {
        writeln!(out, "# {}", untrusted_notice(file))?;
    }
    Ok(())
}

/// Header values often hold keys.
fn mask_headers(values: &mut Value) {
    let providers = values["providers"]
        .as_object_mut()
        .into_iter()
        .flat_map(|all| all.values_mut());
    for header in providers
        .filter_map(|provider| provider.get_mut("headers")?.as_object_mut())
        .flat_map(|all| all.values_mut())
    {
        *header = Value::String("********".to_owned());
    }
}

/// Lines of dotted keys and TOML values; what is not set has none.
fn flatten(path: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                flatten(&config::join(path, key), value, lines);
            }
        }
        Value::Null => {}
        value => {
            if let Ok(value) = toml::Value::try_from(value) {
                lines.push((path.to_owned(), value.to_string()));
            }
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::File { file, line } => write!(formatter, "{}:{line}", file.display()),
            Origin::Variable(name) | Origin::Flag(name) => formatter.write_str(name),
        }
    }
}
