//! A contract as one JSON document: what its committed file holds.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::descriptor::{MemberDescriptor, MemberKind, ServiceDescriptor};

/// Two types of one contract have the same name and different schemas.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "contract {contract} has two types called {name} with different schemas; give one of them another name with #[schemars(rename = \"…\")]"
)]
pub struct SchemaConflict {
    /// The service's id.
    pub contract: &'static str,
    /// The name that stands for two types.
    pub name: String,
}

impl ServiceDescriptor {
    /// The contract with its members and all their JSON Schemas, references included, as one document.
    ///
    /// Its text is the same in every build, so that a file of it shows each change of the contract.
    pub fn document(&self) -> Result<Value, SchemaConflict> {
        let mut writer = Writer {
            contract: self.id,
            definitions: Map::new(),
            references: BTreeMap::new(),
        };
        let members = writer.members(self)?;
        let mut document = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "service": self.id,
            "version": self.version.to_string(),
            "members": members,
        });
        describe(&mut document, self.documentation);
        if !writer.references.is_empty() {
            document["references"] = json!(writer.references);
        }
        if !writer.definitions.is_empty() {
            document["$defs"] = Value::Object(writer.definitions);
        }
        document.sort_all_objects();
        Ok(document)
    }
}

fn describe(written: &mut Value, documentation: &str) {
    if !documentation.is_empty() {
        written["description"] = json!(documentation);
    }
}

struct Writer {
    contract: &'static str,
    definitions: Map<String, Value>,
    /// Members of each object's contract, by its name.
    references: BTreeMap<&'static str, Value>,
}

impl Writer {
    fn members(&mut self, contract: &ServiceDescriptor) -> Result<Value, SchemaConflict> {
        let mut members = Map::new();
        for member in contract.members {
            members.insert(member.name.to_owned(), self.member(member)?);
        }
        Ok(Value::Object(members))
    }

    fn member(&mut self, member: &MemberDescriptor) -> Result<Value, SchemaConflict> {
        let mut written = json!({ "kind": member.kind, "scope": member.scope });
        describe(&mut written, member.documentation);
        if let Some(arguments) = member.arguments {
            let mut arguments = self.hoist(arguments())?;
            // The structure behind it is the macro's, not the contract's.
            arguments
                .as_object_mut()
                .and_then(|arguments| arguments.remove("title"));
            written["arguments"] = arguments;
        }
        match member.reference {
            Some(reference) => written["returns_reference"] = json!(self.reference(reference())?),
            None => {
                let key = match member.kind {
                    MemberKind::Call => "result",
                    MemberKind::State => "value",
                    MemberKind::Events => "event",
                };
                written[key] = self.hoist((member.result)())?;
            }
        }
        if let Some(error) = member.error {
            written["error"] = self.hoist(error())?;
        }
        Ok(written)
    }

    /// Adds the contract of an object, and answers its name.
    fn reference(
        &mut self,
        contract: &'static ServiceDescriptor,
    ) -> Result<&'static str, SchemaConflict> {
        if !self.references.contains_key(contract.id) {
            // Known before its members are written: an object may return another of its kind.
            self.references.insert(contract.id, Value::Null);
            let members = self.members(contract)?;
            self.references
                .insert(contract.id, json!({ "members": members }));
        }
        Ok(contract.id)
    }

    /// Moves a schema's definitions to the document, where its references then find them.
    fn hoist(&mut self, schema: schemars::Schema) -> Result<Value, SchemaConflict> {
        let mut schema = schema.to_value();
        let Some(fields) = schema.as_object_mut() else {
            return Ok(schema);
        };
        fields.remove("$schema");
        if let Some(Value::Object(definitions)) = fields.remove("$defs") {
            for (name, definition) in definitions {
                match self.definitions.get(&name) {
                    Some(known) if *known != definition => {
                        let contract = self.contract;
                        return Err(SchemaConflict { contract, name });
                    }
                    _ => self.definitions.insert(name, definition),
                };
            }
        }
        Ok(schema)
    }
}
