//! What a tool returned, made into what may be kept: structured data that matches the schema which the tool
//! declares, and something for the model to read.

use std::sync::Arc;
use std::sync::OnceLock;

use bezel_session_types::{ResultContent, ToolOutput, ToolSpec};
use serde_json::Value;

use super::arguments::mismatches;
use super::set::Compiled;

/// The schema of a tool's structured data, compiled when first needed. Clones share the work.
#[derive(Clone)]
pub(crate) struct OutputSchema {
    schema: Option<Arc<Value>>,
    pub(super) compiled: Arc<OnceLock<Compiled>>,
}

/// Output that does not encode. The text is for the model, which can do nothing about it but go another way.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("it declares structured output and gave none")]
    Missing,
    #[error("the schema of its output is not a valid JSON Schema ({0})")]
    Schema(String),
    #[error("its structured output does not match its schema:{0}")]
    Mismatch(String),
}

impl OutputSchema {
    pub(super) fn of(spec: &ToolSpec) -> Self {
        OutputSchema {
            schema: spec.output.clone(),
            compiled: Arc::default(),
        }
    }

    /// Whether structured data is what the tool declares; without a schema everything is.
    pub(crate) fn check(&self, structured: Option<&Value>) -> Result<(), OutputError> {
        let Some(schema) = &self.schema else {
            return Ok(());
        };
        let structured = structured.ok_or(OutputError::Missing)?;
        let compiled = self.compiled.get_or_init(|| super::set::compile(schema));
        let validator = match compiled {
            Ok(validator) => validator,
            Err(error) => return Err(OutputError::Schema(error.to_string())),
        };
        match mismatches(validator, structured, "output") {
            found if found.is_empty() => Ok(()),
            found => Err(OutputError::Mismatch(found)),
        }
    }

    /// Checks what a tool returned. Structured data without anything to read becomes what the model reads.
    pub(crate) fn encode(&self, output: &mut ToolOutput) -> Result<(), OutputError> {
        self.check(output.structured.as_ref())?;
        if let (Some(structured), true) = (&output.structured, output.content.is_empty()) {
            output.content.push(ResultContent::text(pretty(structured)));
        }
        Ok(())
    }
}

/// Structured data as text.
pub(super) fn pretty(structured: &Value) -> String {
    format!("{structured:#}")
}
