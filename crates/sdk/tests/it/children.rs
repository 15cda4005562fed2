//! A session that another one began in another directory.

use std::path::Path;
use std::sync::{Arc, Mutex};

use bezel_cli::embed::Paths;
use bezel_sdk::session_api::{SessionContext, Sessions};
use bezel_sdk::{Context, PermissionMode, SessionFacet};
use bezel_session_types::{CommandId, Delivery, RunOutcome, UserMessage};
use bezel_sessions_contract::CreateChild;
use bezel_testkit::{FakeModelServer, ModelCall, Script, SeenPart, Turn};
use serde_json::json;

use crate::world::{bezel, project};

fn write(directory: &Path, file: &str, text: &str) {
    let file = directory.join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

/// A rule of a configuration.
fn rule(command: &str, effect: &str) -> String {
    format!(
        "[[permissions.rules]]\naction = \"shell\"\nresource = \"{command}\"\neffect = \"{effect}\"\n"
    )
}

/// A plugin that hands out the sessions as a root sees them.
fn sessions(kept: &Arc<Mutex<Option<Sessions>>>) -> SessionFacet {
    let kept = Arc::clone(kept);
    SessionFacet::new("sessions-of-the-root", move |cx: SessionContext| {
        if cx.agent.identity().parent_id.is_none() {
            *kept.lock().unwrap() = Some(cx.session.clone());
        }
        async { Ok(()) }
    })
}

fn has_results(call: &ModelCall) -> bool {
    call.parts()
        .any(|part| matches!(part, SeenPart::ToolResult { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_elsewhere_has_what_is_configured_there_and_no_more_leave_than_its_parent() {
    let script = Script::respond(|call| match has_results(call) {
        true => Turn::text("Done."),
        false => Turn::tool_calls(
            ["fine", "ruled", "bound"]
                .map(|file| ("bash", json!({ "command": format!("touch {file}") }))),
        ),
    });
    let model = FakeModelServer::start(script).await.unwrap();
    let (home, workspace) = (project(), project());
    let (here, there) = (
        workspace.path().join("here"),
        workspace.path().join("there"),
    );
    std::fs::create_dir(workspace.path().join(".git")).unwrap();
    let denies = rule("touch ruled", "deny");
    write(
        &here,
        ".bezel/config.toml",
        &format!("agent = \"careful\"\n{denies}"),
    );
    let careful = "---\nmode: all\npermissions:\n  - {action: shell, resource: 'touch bound', effect: deny}\n---\n";
    write(&here, ".bezel/agents/careful.md", careful);
    write(&here, "AGENTS.md", "Here we sing.\n");
    write(&there, ".bezel/config.toml", &rule("touch *", "allow"));
    let free = "---\nmode: all\npermissions:\n  bash: allow\n---\nYou are free.\n";
    write(&there, ".bezel/agents/careful.md", free);
    write(&there, ".bezel/agents/free.md", free);
    write(&there, "AGENTS.md", "There we dance.\n");
    let trust = Paths::under(home.path().to_owned()).trust();
    let trusted = workspace.path().canonicalize().unwrap();
    let trusted = json!({ "version": 1, "trusted": [trusted] });
    write(trust.parent().unwrap(), "trust.json", &trusted.to_string());

    let kept = Arc::default();
    let builder = bezel(&model)
        .home(home.path())
        .permission_mode(PermissionMode::Auto)
        .plugin(sessions(&kept));
    let bezel = builder.start().await.unwrap();
    let root = bezel.session(&here).await.unwrap();
    let sessions = kept.lock().unwrap().clone().unwrap();
    let cx = Context::background();
    let options = CreateChild {
        parent_id: root.id().clone(),
        session_id: None,
        title: None,
        agent: Some("free".into()),
        model: None,
        directory: Some(there.display().to_string()),
        permission_mode: Some(PermissionMode::Full),
    };
    let child = sessions.create(&cx, options).await.unwrap().session_id;
    let (command, message) = (CommandId::generate(), UserMessage::text("Go."));
    let admitted = sessions.prompt(&cx, &child, command, message, Delivery::Queue);
    let operation = admitted.await.unwrap().operation_id;
    let outcome = sessions.outcome(&cx, &child, &operation).await.unwrap();
    assert_eq!(outcome.outcome, RunOutcome::Completed);
    let asked = &model.calls()[0].system;
    for (words, said) in [
        ("There we dance.", true),
        ("You are free.", true),
        ("Here we sing.", false),
    ] {
        assert_eq!(asked.contains(words), said, "{words}: {asked}");
    }
    let made = |file: &str| there.join(file).exists();
    assert!(made("fine"), "{:?}", model.last_call());
    assert!(!made("ruled"), "what is denied where its parent works");
    assert!(!made("bound"), "what its parent's agent may not do");
    bezel.stop().await.unwrap();
}
