//! What the agent of a session binds: tools, prompt, permissions, model, and the sessions below.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

mod fixture;

use bezel_agents_contract::SelectAgentError;
use bezel_api_session::ApproveTool;
use bezel_models_contract::ModelsClient;
use bezel_permissions_contract::PermissionMode;
use bezel_rpc::CallError;
use bezel_session_types::ThinkingLevel;
use serde_json::json;

use crate::fixture::{Begin, Place, session};

const REVIEW: &str = "---\nmode: primary\nmodel: acme::deep\nthinking: high\ntools: [read, grep, bash, 'late_r*']\n\
    permissions:\n  - {action: shell, resource: 'git push *', effect: deny}\n  - {action: shell, resource: 'make *', \
    effect: allow}\n---\nYou review.\n";

const EVERYTHING: [&str; 6] = ["read", "grep", "edit", "bash", "late_read", "late_write"];

fn denied(said: &ApproveTool) -> bool {
    matches!(said, ApproveTool::Deny(_))
}

#[tokio::test]
async fn without_a_choice_a_session_runs_build_with_everything() {
    let fixture = Place::new().begin(Begin::default()).await;
    assert_eq!(fixture.sees(|_| true).await.current, "build");
    assert_eq!(fixture.tools(), EVERYTHING);
    assert_eq!(fixture.prompt(), "");
    assert_eq!(fixture.model(), ("acme::first".into(), ThinkingLevel::Off));
    fixture
        .session
        .agent
        .before_pass(&fixture.cx)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_recorded_agent_goes_before_the_configured_one() {
    let place = Place::new().with("user/review.md", REVIEW);
    let configured = Begin {
        configured: Some("review"),
        ..Begin::default()
    };
    let fixture = place.begin(configured).await;
    assert_eq!(fixture.sees(|_| true).await.current, "review");
    assert_eq!(fixture.prompt(), "You review.");
    let both = Begin {
        configured: Some("review"),
        agent: Some("plan"),
        ..Begin::default()
    };
    let place = Place::new().with("user/review.md", REVIEW);
    let fixture = place.begin(both).await;
    assert_eq!(fixture.sees(|_| true).await.current, "plan");
}

#[tokio::test]
async fn selecting_an_agent_applies_all_of_it_at_once_and_build_takes_it_all_back() {
    let place = Place::new().with("project/review.md", REVIEW);
    let full = Begin {
        mode: PermissionMode::Full,
        ..Begin::default()
    };
    let fixture = place.begin(full).await;
    assert_eq!(fixture.shell("git push").await, ApproveTool::Allow);
    fixture.select("review").await;
    // Tools that another plugin set later are left out as well.
    assert_eq!(fixture.tools(), ["read", "grep", "bash", "late_read"]);
    assert_eq!(fixture.prompt(), "You review.");
    assert_eq!(fixture.model(), ("acme::deep".into(), ThinkingLevel::High));
    assert!(denied(&fixture.shell("git push").await));
    assert_eq!(fixture.shell("git status").await, ApproveTool::Allow);
    assert_eq!(fixture.server.record.get().agent.as_deref(), Some("review"));
    fixture.sees(|state| state.current == "review").await;
    fixture.select("build").await;
    assert_eq!(fixture.tools(), EVERYTHING);
    assert_eq!(fixture.prompt(), "");
    assert_eq!(fixture.model(), ("acme::first".into(), ThinkingLevel::Off));
    assert_eq!(fixture.shell("git push").await, ApproveTool::Allow);
}

#[tokio::test]
async fn what_an_agent_allows_runs_unasked_but_not_against_a_configured_denial() {
    let place = Place::new().with("user/review.md", REVIEW);
    let fixture = place
        .begin(Begin {
            agent: Some("review"),
            mode: PermissionMode::Ask,
            rules: json!([
                { "action": "shell", "resource": "make deploy", "effect": "deny" },
                { "action": "shell", "resource": "make test", "effect": "ask" },
            ]),
            ..Begin::default()
        })
        .await;
    assert_eq!(fixture.shell("make all").await, ApproveTool::Allow);
    assert_eq!(fixture.shell("make test").await, ApproveTool::Allow);
    assert!(denied(&fixture.shell("make deploy").await));
}

#[tokio::test]
async fn plan_narrows_every_mode_and_says_so_to_the_model_and_to_clients() {
    let full = Begin {
        mode: PermissionMode::Full,
        ..Begin::default()
    };
    let fixture = Place::new().begin(full).await;
    assert_eq!(fixture.edit().await, ApproveTool::Allow);
    fixture.select("plan").await;
    assert!(denied(&fixture.edit().await));
    assert!(
        fixture.prompt().contains("You are in plan mode"),
        "{}",
        fixture.prompt()
    );
    let state = fixture.permissions.state();
    let limited = state
        .wait_for(&fixture.cx, |state| state.limit.is_some())
        .await;
    let limited = limited.unwrap();
    assert_eq!(
        (limited.mode, limited.effective()),
        (PermissionMode::Full, PermissionMode::Plan)
    );
    fixture.select("build").await;
    assert_eq!(fixture.edit().await, ApproveTool::Allow);
    assert!(!fixture.prompt().contains("plan mode"));
}

#[tokio::test]
async fn a_model_that_somebody_chose_for_the_session_stays() {
    let place = Place::new().with("user/review.md", REVIEW);
    let chosen = Begin {
        model: Some("acme::swift"),
        ..Begin::default()
    };
    let fixture = place.begin(chosen).await;
    fixture.select("review").await;
    assert_eq!(fixture.model().0, "acme::swift");

    let place = Place::new().with("user/review.md", REVIEW);
    let fixture = place.begin(Begin::default()).await;
    let models: ModelsClient = fixture.session.remote().use_service();
    let swift = "acme::swift".parse().unwrap();
    models.select(&fixture.cx, swift).await.unwrap();
    fixture.select("review").await;
    assert_eq!(fixture.model().0, "acme::swift");
}

#[tokio::test]
async fn what_cannot_be_selected_is_refused_and_nothing_changes() {
    let fixture = Place::new().begin(Begin::default()).await;
    let refusal = |name: &'static str| {
        let agents = fixture.agents.clone();
        let cx = fixture.cx.clone();
        async move {
            match agents.select(&cx, name.into()).await {
                Err(CallError::Service(error)) => error,
                other => panic!("{other:?}"),
            }
        }
    };
    let unknown = refusal("plann").await;
    assert!(
        unknown.to_string().contains("did you mean plan?"),
        "{unknown}"
    );
    let subagent = refusal("explore").await;
    assert!(
        subagent
            .to_string()
            .contains("parts of another agent's work"),
        "{subagent}"
    );
    fixture.server.refuses.send_replace(true);
    let unrecorded = refusal("plan").await;
    assert!(
        matches!(&unrecorded, SelectAgentError::NotRecorded { message } if message.contains("disk is full"))
    );
    assert_eq!(fixture.tools(), EVERYTHING);
    assert_eq!(fixture.sees(|_| true).await.current, "build");
}

#[tokio::test]
async fn what_somebody_else_records_is_followed() {
    let place = Place::new().with("user/review.md", REVIEW);
    let fixture = place.begin(Begin::default()).await;
    let record = &fixture.server.record;
    record.update(&fixture.cx, |record| record.agent = Some("review".into()));
    fixture.sees(|state| state.current == "review").await;
    assert_eq!(fixture.prompt(), "You review.");
    record.update(&fixture.cx, |record| record.agent = None);
    fixture.sees(|state| state.current == "build").await;
    assert_eq!(fixture.tools(), EVERYTHING);
}

#[tokio::test]
async fn a_changed_file_counts_from_the_next_run_on_and_a_bad_one_lets_nothing_run() {
    let place = Place::new().with("user/review.md", REVIEW);
    let review = Begin {
        agent: Some("review"),
        ..Begin::default()
    };
    let fixture = place.begin(review).await;
    fixture.write("user/review.md", "---\ntools: [read]\n---\nYou read.\n");
    fixture
        .session
        .agent
        .before_pass(&fixture.cx)
        .await
        .unwrap();
    assert_eq!(fixture.tools(), ["read"]);
    assert_eq!(fixture.prompt(), "You read.");

    fixture.write("user/review.md", "---\nmode: x\n---\n");
    let refusal = fixture.session.agent.before_pass(&fixture.cx).await;
    let refusal = refusal.unwrap_err().to_string();
    assert!(refusal.contains("no agent `review`"), "{refusal}");
    assert_eq!(fixture.tools(), [""; 0]);
    assert!(denied(&fixture.shell("ls").await));
    let state = fixture.sees(|state| !state.problems.is_empty()).await;
    assert_eq!(state.problems[0].line, Some(2));

    fixture.select("build").await;
    fixture
        .session
        .agent
        .before_pass(&fixture.cx)
        .await
        .unwrap();
    assert_eq!(fixture.tools(), EVERYTHING);
}

#[tokio::test]
async fn a_child_has_no_more_than_every_session_above_it() {
    let place = Place::new().with("user/review.md", REVIEW).with(
        "user/helper.md",
        "---\nmode: subagent\ntools: [grep, bash, edit]\npermissions:\n  bash:\n    'ls *': deny\n    '*': allow\n---\nYou help.\n",
    );
    let fixture = place
        .begin(Begin {
            agent: Some("helper"),
            mode: PermissionMode::Auto,
            tree: vec![
                session("root", None, Some("review")),
                session("middle", Some("root"), None),
                session("session-under-test", Some("middle"), Some("helper")),
            ],
            ..Begin::default()
        })
        .await;
    // Before it is known what the sessions above run, there is nothing.
    assert_eq!(fixture.tools(), [""; 0]);
    assert!(denied(&fixture.shell("ls").await));
    fixture
        .session
        .agent
        .before_pass(&fixture.cx)
        .await
        .unwrap();
    assert_eq!(fixture.tools(), ["grep", "bash"]);
    assert_eq!(fixture.prompt(), "You help.");
    assert!(
        denied(&fixture.shell("git push").await),
        "the root's agent denies it"
    );
    assert!(
        denied(&fixture.shell("ls").await),
        "its own agent denies it"
    );

    // The root goes on as another agent: the next run of its child is bound by that.
    fixture
        .server
        .tree
        .send_modify(|tree| tree[0].agent = Some("plan".into()));
    fixture
        .session
        .agent
        .before_pass(&fixture.cx)
        .await
        .unwrap();
    assert_eq!(fixture.tools(), ["grep", "edit", "bash"]);
    assert!(denied(&fixture.edit().await));

    // Where the server cannot say it, what it said last binds.
    fixture.server.tree.send_replace(Vec::new());
    fixture
        .session
        .agent
        .before_pass(&fixture.cx)
        .await
        .unwrap();
    assert!(denied(&fixture.edit().await));
    fixture.remove("user/helper.md");
    assert!(
        fixture
            .session
            .agent
            .before_pass(&fixture.cx)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_child_runs_nothing_unasked_that_a_session_above_would_ask_for() {
    let place = Place::new().with(
        "user/helper.md",
        "---\nmode: subagent\npermissions:\n  bash: allow\n---\n",
    );
    let fixture = place
        .begin(Begin {
            agent: Some("helper"),
            mode: PermissionMode::Ask,
            tree: vec![
                session("root", None, None),
                session("session-under-test", Some("root"), Some("helper")),
            ],
            ..Begin::default()
        })
        .await;
    fixture
        .session
        .agent
        .before_pass(&fixture.cx)
        .await
        .unwrap();
    let asks = fixture.permissions.asks();
    let call = fixture.shell("unheard-of");
    let asked = asks.wait_for(&fixture.cx, |asks| !asks.is_empty());
    tokio::select! {
        said = call => panic!("it was not asked: {said:?}"),
        asked = asked => assert_eq!(asked.unwrap()[0].request.tool, "bash"),
    }
}

#[tokio::test]
async fn what_binds_a_session_above_is_what_its_agent_is_where_it_works() {
    let place = Place::new()
        .with("user/one.md", "---\n---\n")
        .with("user/two.md", "---\n---\n")
        .with("elsewhere/one.md", "---\ntools: [read, grep, bash]\n---\n")
        .with("elsewhere/two.md", "---\ntools: [read, edit, bash]\n---\n");
    let fixture = place
        .begin(Begin {
            agent: Some("one"),
            mode: PermissionMode::Auto,
            tree: vec![
                session("root", None, None),
                session("middle", Some("root"), Some("one")),
                session("session-under-test", Some("middle"), Some("one")),
            ],
            // The root runs what is configured there.
            elsewhere: vec![Some("two"), None],
            ..Begin::default()
        })
        .await;
    let agent = &fixture.session.agent;
    agent.before_pass(&fixture.cx).await.unwrap();
    assert_eq!(fixture.tools(), ["read", "bash"]);
    // What changes there counts at the next run, and where it is gone nothing runs.
    fixture.write("elsewhere/two.md", "---\ntools: [read]\n---\n");
    agent.before_pass(&fixture.cx).await.unwrap();
    assert_eq!(fixture.tools(), ["read"]);
    fixture.remove("elsewhere/two.md");
    let refusal = agent.before_pass(&fixture.cx).await.unwrap_err();
    assert!(refusal.to_string().contains("`two`"), "{refusal}");
}

#[tokio::test]
async fn a_child_whose_tree_nobody_knows_runs_nothing() {
    let fixture = Place::new()
        .begin(Begin {
            tree: vec![session("session-under-test", Some("gone"), None)],
            ..Begin::default()
        })
        .await;
    let refusal = fixture.session.agent.before_pass(&fixture.cx).await;
    assert!(
        refusal
            .unwrap_err()
            .to_string()
            .contains("did not say which agents")
    );
    assert_eq!(fixture.tools(), [""; 0]);
}
