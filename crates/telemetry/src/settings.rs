//! What the standard variables say.

use std::time::Duration;

use bezel_context::Sampling;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::variables::{Variables, pairs};

/// Which part of the product a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// It shows sessions: the terminal, or one command.
    Presentation,
    /// It routes and keeps records.
    Server,
    /// It runs a session.
    Worker,
}

impl Process {
    /// The `service.name` where the variables name none.
    pub fn service_name(self) -> &'static str {
        match self {
            Process::Presentation => "bezel",
            Process::Server => "bezel-server",
            Process::Worker => "bezel-worker",
        }
    }

    fn role(self) -> &'static str {
        match self {
            Process::Presentation => "presentation",
            Process::Server => "server",
            Process::Worker => "worker",
        }
    }
}

/// Where spans go, and with what.
#[derive(Clone)]
pub struct Settings {
    pub(crate) endpoint: Url,
    /// May hold keys: in no message, and marked so that a log hides them.
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
    pub(crate) sampling: Sampling,
    pub(crate) resource: Resource,
    pub(crate) delay: Duration,
    pub(crate) queue: usize,
    pub(crate) batch: usize,
}

/// What the variables come to.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Where to export to; none where no export is asked for, or none that can be made.
    pub settings: Option<Settings>,
    /// What was not understood, and what holds instead. For the log: it is no reason to fail.
    pub notices: Vec<String>,
}

impl Settings {
    /// What the standard variables say, as `lookup` gives them. They ask for an export only where
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is among them.
    pub fn from_variables(process: Process, lookup: impl Fn(&str) -> Option<String>) -> Reading {
        let mut variables = Variables::new(&lookup);
        let settings = Settings::read(process, &mut variables).unwrap_or_else(|why| {
            let notice = format!("no spans are exported: {why}");
            variables.notices.push(notice);
            None
        });
        Reading {
            settings,
            notices: variables.notices,
        }
    }

    /// The error says what is asked for that cannot be had.
    fn read(
        process: Process,
        variables: &mut Variables<'_>,
    ) -> Result<Option<Settings>, Impossible> {
        // Most processes end here.
        let Some((name, endpoint)) = variables
            .text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .or_else(|| variables.text("OTEL_EXPORTER_OTLP_ENDPOINT"))
        else {
            return Ok(None);
        };
        if variables.flag("OTEL_SDK_DISABLED") {
            return Ok(None);
        }
        match variables.text("OTEL_TRACES_EXPORTER") {
            None => {}
            Some((_, exporter)) if exporter == "otlp" => {}
            Some((_, exporter)) if exporter == "none" => return Ok(None),
            Some((name, exporter)) => {
                return Err(Impossible(format!(
                    "{name}={exporter:?} is not there; set it to `otlp` or `none`"
                )));
            }
        }
        if let Some((name, protocol)) = variables
            .of_traces("PROTOCOL")
            .filter(|(_, protocol)| protocol != "http/protobuf")
        {
            return Err(Impossible(format!(
                "{name}={protocol:?} is not spoken; set it to `http/protobuf` and the endpoint to the collector's HTTP port, usually 4318"
            )));
        }
        let endpoint = match address(&endpoint, name == "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
            Ok(endpoint) => endpoint,
            Err(why) => {
                return Err(Impossible(format!(
                    "{name} is not an address ({why}); write for example http://127.0.0.1:4318"
                )));
            }
        };
        let milliseconds = |value: Option<u64>, default| {
            value.map_or(default, |value| Duration::from_millis(value.max(1)))
        };
        let timeout = variables.of_traces("TIMEOUT");
        let timeout = variables.number(timeout);
        let delay = variables.text("OTEL_BSP_SCHEDULE_DELAY");
        let delay = variables.number(delay);
        let queue = variables.text("OTEL_BSP_MAX_QUEUE_SIZE");
        let queue = size(variables.number(queue), 2048);
        let batch = variables.text("OTEL_BSP_MAX_EXPORT_BATCH_SIZE");
        let batch = size(variables.number(batch), 512).min(queue);
        Ok(Some(Settings {
            endpoint,
            headers: headers(variables),
            timeout: milliseconds(timeout, Duration::from_secs(10)),
            sampling: sampling(variables),
            resource: resource(process, variables),
            delay: milliseconds(delay, Duration::from_secs(5)),
            queue,
            batch,
        }))
    }
}

/// An export that this product does not have, and what to set instead.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Impossible(String);

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("endpoint", &self.endpoint.origin().ascii_serialization())
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

fn size(value: Option<u64>, default: usize) -> usize {
    value
        .and_then(|value| usize::try_from(value).ok())
        .map_or(default, |value| value.clamp(1, 65_536))
}

/// Why a text is no address of a collector.
#[derive(Debug, thiserror::Error)]
enum AddressError {
    #[error("{0}")]
    Syntax(String),
    #[error("it is neither http nor https")]
    Scheme,
}

/// The address of one signal is taken as it is; of the general one the standard path is made.
fn address(text: &str, of_traces: bool) -> Result<Url, AddressError> {
    let mut url = Url::parse(text).map_err(|error| AddressError::Syntax(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(AddressError::Scheme);
    }
    if !of_traces {
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

/// The general ones, and over them those of traces.
fn headers(variables: &mut Variables<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for name in [
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    ] {
        let Some((_, text)) = variables.text(name) else {
            continue;
        };
        for pair in pairs(&text) {
            let read = pair.and_then(|(key, value)| {
                let key = HeaderName::from_bytes(key.as_bytes()).ok()?;
                let mut value = HeaderValue::from_str(&value).ok()?;
                value.set_sensitive(true);
                Some((key, value))
            });
            match read {
                Some((key, value)) => drop(headers.insert(key, value)),
                // Never what stands there: it may be a key.
                None => variables.notices.push(format!(
                    "a part of {name} is not `key=value` and is left out"
                )),
            }
        }
    }
    headers
}

fn sampling(variables: &mut Variables<'_>) -> Sampling {
    let Some((name, sampler)) = variables.text("OTEL_TRACES_SAMPLER") else {
        return Sampling::default();
    };
    let by_parent = sampler.strip_prefix("parentbased_");
    let follows_parent = by_parent.is_some();
    let ratio = match by_parent.unwrap_or(&sampler) {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => match variables.text("OTEL_TRACES_SAMPLER_ARG") {
            None => 1.0,
            Some((name, text)) => match text.parse::<f64>() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => ratio,
                _ => {
                    variables.notices.push(format!(
                        "{name}={text:?} is not a number from 0 to 1; 1 holds"
                    ));
                    1.0
                }
            },
        },
        _ => {
            variables.notices.push(format!(
                "{name}={sampler:?} is not known; parentbased_always_on holds"
            ));
            return Sampling::default();
        }
    };
    Sampling {
        ratio,
        follows_parent,
    }
}

fn resource(process: Process, variables: &mut Variables<'_>) -> Resource {
    let mut attributes = vec![
        KeyValue::new("service.name", process.service_name()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("telemetry.sdk.name", "opentelemetry"),
        KeyValue::new("telemetry.sdk.language", "rust"),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ];
    if let Some((name, text)) = variables.text("OTEL_RESOURCE_ATTRIBUTES") {
        for pair in pairs(&text) {
            match pair {
                Some((key, value)) => attributes.push(KeyValue::new(key, value)),
                None => variables.notices.push(format!(
                    "a part of {name} is not `key=value` and is left out"
                )),
            }
        }
    }
    if let Some((_, name)) = variables.text("OTEL_SERVICE_NAME") {
        attributes.push(KeyValue::new("service.name", name));
    }
    // The processes of one name can still be told apart.
    attributes.push(KeyValue::new("bezel.process", process.role()));
    // Of one key the last value holds.
    Resource::builder_empty()
        .with_attributes(attributes)
        .build()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use opentelemetry::Key;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Reading {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        Settings::from_variables(Process::Worker, |name| {
            variables.get(name).map(|value| (*value).to_owned())
        })
    }

    fn exporting(variables: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let here = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")];
        let reading = read(&[&here[..], variables].concat());
        (reading.settings.expect("an export"), reading.notices)
    }

    fn settings(variables: &[(&str, &str)]) -> Settings {
        exporting(variables).0
    }

    fn attribute(settings: &Settings, key: &'static str) -> String {
        settings
            .resource
            .get(&Key::new(key))
            .map(|value| value.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn nothing_is_asked_for_without_an_endpoint_or_where_it_is_switched_off() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
        for variables in [
            &[][..],
            &[("OTEL_SERVICE_NAME", "mine")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[endpoint, ("OTEL_SDK_DISABLED", "TRUE")],
            &[endpoint, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            let reading = read(variables);
            assert!(reading.settings.is_none(), "{variables:?}");
            assert!(reading.notices.is_empty(), "{variables:?}");
        }
    }

    #[test]
    fn what_cannot_be_done_says_what_to_set_instead() {
        for (variables, hint) in [
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318")][..],
                "http://127.0.0.1:4318",
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"),
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                ],
                "4318",
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
                    ("OTEL_TRACES_EXPORTER", "zipkin"),
                ],
                "`otlp`",
            ),
        ] {
            let reading = read(variables);
            assert!(reading.settings.is_none(), "{variables:?}");
            assert!(reading.notices[0].contains(hint), "{:?}", reading.notices);
        }
    }

    #[test]
    fn the_general_endpoint_gets_the_standard_path_and_that_of_traces_holds_as_it_is() {
        let general = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://otel.example/base/")]);
        assert_eq!(
            general.endpoint.as_str(),
            "https://otel.example/base/v1/traces"
        );
        let own = settings(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://h:1/x")]);
        assert_eq!(own.endpoint.as_str(), "http://h:1/x");
    }

    #[test]
    fn headers_are_read_decoded_and_shown_to_nobody() {
        let (settings, notices) = exporting(&[
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "Api-Key=one%20two, x-team = a",
            ),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-team=b,secretvalue"),
        ]);
        assert_eq!(settings.headers["api-key"], "one two");
        assert_eq!(settings.headers["x-team"], "b");
        assert_eq!(notices.len(), 1);
        let shown = format!("{settings:?} {:?} {notices:?}", settings.headers);
        assert!(!shown.contains("one two"), "{shown}");
        assert!(!shown.contains("secretvalue"), "{shown}");
    }

    #[test]
    fn a_resource_names_its_service_by_the_nearest_variable() {
        assert_eq!(attribute(&settings(&[]), "service.name"), "bezel-worker");
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=b%2Cc");
        let named = settings(&[attributes]);
        assert_eq!(attribute(&named, "service.name"), "a");
        assert_eq!(attribute(&named, "team"), "b,c");
        let named = settings(&[attributes, ("OTEL_SERVICE_NAME", "mine")]);
        assert_eq!(attribute(&named, "service.name"), "mine");
        assert_eq!(attribute(&named, "bezel.process"), "worker");
    }

    #[test]
    fn samplers_are_read_and_a_wrong_one_is_said() {
        let of = |name: &str, argument: &str| {
            let (read, notices) = exporting(&[
                ("OTEL_TRACES_SAMPLER", name),
                ("OTEL_TRACES_SAMPLER_ARG", argument),
            ]);
            (
                read.sampling.ratio,
                read.sampling.follows_parent,
                notices.len(),
            )
        };
        assert_eq!(of("traceidratio", "0.25"), (0.25, false, 0));
        assert_eq!(of("parentbased_traceidratio", "0.5"), (0.5, true, 0));
        assert_eq!(of("parentbased_traceidratio", "two"), (1.0, true, 1));
        assert_eq!(of("always_off", ""), (0.0, false, 0));
        assert_eq!(of("xray", ""), (1.0, true, 1));
    }

    #[test]
    fn numbers_are_read_and_a_wrong_one_is_said() {
        let (read, notices) = exporting(&[
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "16"),
        ]);
        assert_eq!(read.timeout, Duration::from_millis(250));
        assert_eq!(read.delay, Duration::from_secs(5));
        assert_eq!((read.queue, read.batch), (16, 16));
        assert_eq!(notices.len(), 1, "{notices:?}");
    }
}
