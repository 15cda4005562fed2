//! The committed documents of all contracts: a change of a contract is a change of its file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bezel_host_http::openapi::{self, Provided};
use bezel_rpc::{ServiceClient, ServiceDescriptor};
use serde_json::Value;

fn descriptors() -> Vec<&'static ServiceDescriptor> {
    vec![
        bezel_access_contract::AccessClient::descriptor(),
        bezel_accounts_contract::AccountsClient::descriptor(),
        bezel_agents_contract::AgentsClient::descriptor(),
        bezel_blobs_contract::BlobsClient::descriptor(),
        bezel_chat_contract::ChatClient::descriptor(),
        bezel_example_contract::TodosClient::descriptor(),
        bezel_files_contract::FilesClient::descriptor(),
        bezel_models_contract::ModelsClient::descriptor(),
        bezel_policy_contract::ServerControlClient::descriptor(),
        bezel_sessions_contract::SessionChildrenClient::descriptor(),
        bezel_sessions_contract::SessionCopiesClient::descriptor(),
        bezel_rewind_contract::RewindClient::descriptor(),
        bezel_sessions_contract::SessionDirectoryClient::descriptor(),
        bezel_sessions_contract::SessionForkClient::descriptor(),
        bezel_sessions_contract::SessionManagementClient::descriptor(),
        bezel_sessions_contract::SessionProcessClient::descriptor(),
        bezel_sessions_contract::SessionRecordClient::descriptor(),
        bezel_sessions_contract::SessionUpkeepClient::descriptor(),
        bezel_transcript_contract::TranscriptClient::descriptor(),
        bezel_permissions_contract::PermissionsClient::descriptor(),
        bezel_question_contract::QuestionsClient::descriptor(),
        bezel_tree_contract::TreeClient::descriptor(),
        bezel_usage_contract::UsageClient::descriptor(),
    ]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read_to_string(entry.path()).unwrap())
    };
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| read(entry.unwrap())).collect()
}

#[test]
fn the_committed_documents_are_those_of_the_contracts() {
    let folder = root().join("docs/contracts");
    let current: BTreeMap<String, String> = descriptors()
        .into_iter()
        .map(|contract| {
            let document = contract.document().unwrap();
            let text = serde_json::to_string_pretty(&document).unwrap();
            (format!("{}.json", contract.id), format!("{text}\n"))
        })
        .collect();
    if std::env::var_os("BEZEL_BLESS").is_some() {
        for name in files(&folder).keys() {
            fs::remove_file(folder.join(name)).unwrap();
        }
        for (name, text) in &current {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    let committed = files(&folder);
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    let hint = "run this test with BEZEL_BLESS=1, and raise the version of a contract that changed";
    assert_eq!(names(&committed), names(&current), "docs/contracts: {hint}");
    for (name, text) in current {
        assert!(
            committed[&name] == text,
            "docs/contracts/{name} is out of date: {hint}"
        );
    }
}

/// The contracts of the product that the server itself provides; the others are those of sessions.
const OF_THE_SERVER: &[&str] = &[
    "access",
    "server",
    "session-children",
    "session-copies",
    "session-directory",
    "session-management",
    "session-record",
    "session-upkeep",
];
/// Contracts of no product.
const OF_NO_PRODUCT: &[&str] = &["todos"];

/// What the product answers over HTTP. A process test compares it with what a server really announces.
#[test]
fn the_committed_openapi_document_is_that_of_the_contracts() {
    let contracts: Vec<(&str, Value)> = descriptors()
        .into_iter()
        .filter(|contract| !OF_NO_PRODUCT.contains(&contract.id))
        .map(|contract| (contract.id, contract.document().unwrap()))
        .collect();
    let provided: Vec<Provided<'_>> = contracts
        .iter()
        .map(|(id, contract)| Provided {
            contract,
            by_sessions: !OF_THE_SERVER.contains(id),
        })
        .collect();
    let document = openapi::document(env!("CARGO_PKG_VERSION"), &provided);
    let current = format!("{}\n", serde_json::to_string_pretty(&document).unwrap());
    let file = root().join("docs/openapi.json");
    if std::env::var_os("BEZEL_BLESS").is_some() {
        fs::write(&file, &current).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == current,
        "docs/openapi.json is out of date: run this test with BEZEL_BLESS=1"
    );
}

/// The list above is written by hand: the sources say whether it is complete.
#[test]
fn every_contract_of_the_workspace_has_a_document() {
    let mut written: Vec<String> = Vec::new();
    for plugin in fs::read_dir(root().join("plugins")).unwrap() {
        let sources = plugin.unwrap().path().join("contract/src");
        for text in texts(&sources) {
            let marks = text
                .lines()
                .filter_map(|line| line.strip_prefix("#[service(\""));
            written.extend(marks.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()));
        }
    }
    written.sort_unstable();
    let mut listed: Vec<&str> = descriptors().iter().map(|contract| contract.id).collect();
    listed.sort_unstable();
    assert_eq!(written, listed);
}

/// The texts of all files below a folder; none where there is no such folder.
fn texts(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let read = |entry: fs::DirEntry| match entry.path() {
        path if path.is_dir() => texts(&path),
        path => vec![fs::read_to_string(path).unwrap()],
    };
    entries.flat_map(|entry| read(entry.unwrap())).collect()
}
