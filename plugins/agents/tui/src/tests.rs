//! Picker, key and status line in a terminal, before a session that the test plays.

use bezel_agents_contract::{
    AgentMode, AgentProblem, AgentSource, AgentSummary, Agents, AgentsClient, AgentsState,
    SelectAgentError,
};
use bezel_api_tui::{Binding, Facet, TuiContext};
use bezel_context::Context;
use bezel_host_tui::{HarnessOptions, TuiHarness};
use bezel_rpc::{State, StateCell};
use bezel_testkit::{FakeServer, FakeWorker};

use crate::facet;

struct Fake(StateCell<AgentsState>);

impl Agents for Fake {
    fn state(&self) -> State<AgentsState> {
        self.0.state()
    }

    async fn select(&self, cx: &Context, name: String) -> Result<(), SelectAgentError> {
        let known = self.0.get();
        if !known.agents.iter().any(|agent| agent.name == name) {
            return Err(SelectAgentError::Unknown {
                name,
                suggestion: Some("plan".into()),
            });
        }
        self.0.update(cx, |state| state.current = name);
        Ok(())
    }
}

fn agent(name: &str, mode: AgentMode, source: AgentSource) -> AgentSummary {
    AgentSummary {
        name: name.into(),
        description: format!("What {name} is for"),
        mode,
        model: None,
        source,
    }
}

fn state() -> AgentsState {
    AgentsState {
        agents: vec![
            agent("build", AgentMode::Primary, AgentSource::BuiltIn),
            agent("plan", AgentMode::Primary, AgentSource::BuiltIn),
            agent("explore", AgentMode::Subagent, AgentSource::BuiltIn),
            agent(
                "review",
                AgentMode::All,
                AgentSource::Project {
                    file: "/p/.bezel/agents/review.md".into(),
                },
            ),
        ],
        current: "build".into(),
        problems: Vec::new(),
    }
}

struct Stage {
    tui: TuiHarness,
    _server: FakeServer,
    _worker: FakeWorker,
}

async fn stage(state: AgentsState) -> Stage {
    let server = FakeServer::new();
    let extra = Facet::new("extra", |cx: TuiContext| async move {
        cx.keybindings.add(Binding::new("f2", "agents.select")?);
        for (key, name) in [("f3", "plan"), ("f4", "plann")] {
            let named = bezel_api_tui::CommandArguments::text(name);
            cx.keybindings
                .add(Binding::new(key, "agents.select")?.arguments(named));
        }
        Ok(())
    });
    let options = HarnessOptions {
        facets: vec![facet(), extra],
        connect: Some(server.connect()),
        ..HarnessOptions::default()
    };
    let tui = TuiHarness::start(options).await.unwrap();
    let worker = server.worker("one");
    let current = state.current.clone();
    worker
        .provide(&AgentsClient::new(Fake(StateCell::new(state))))
        .unwrap();
    worker.activate();
    server.attach("one").await.unwrap();
    tui.wait_for(|screen| screen.row(23).contains(&current))
        .await;
    Stage {
        tui,
        _server: server,
        _worker: worker,
    }
}

async fn shows(stage: &Stage, agent: &str) {
    let shown = |screen: &bezel_host_tui::Screen| screen.row(23).contains(agent);
    stage.tui.wait_for(shown).await;
}

#[tokio::test]
async fn a_key_goes_through_the_agents_that_a_person_may_choose() {
    let stage = stage(state()).await;
    for agent in ["plan", "review", "build"] {
        stage.tui.press("tab").await;
        shows(&stage, agent).await;
        stage
            .tui
            .wait_for_text(&format!("What {agent} is for"))
            .await;
    }
}

#[tokio::test]
async fn the_picker_lists_them_by_where_they_are_from() {
    let stage = stage(state()).await;
    stage.tui.press("f2").await;
    let screen = stage.tui.wait_for_text("This project's").await;
    assert!(!screen.contains("explore"), "{}", screen.text());
    insta::assert_snapshot!(screen.text());
    stage.tui.type_text("rev").await;
    stage.tui.press("enter").await;
    shows(&stage, "review").await;
}

#[tokio::test]
async fn an_agent_can_be_named_and_a_slip_is_told() {
    let stage = stage(state()).await;
    stage.tui.press("f3").await;
    shows(&stage, "plan").await;
    stage.tui.press("f4").await;
    stage.tui.wait_for_text("plan?)").await;
}

#[tokio::test]
async fn a_file_that_was_left_out_is_told_once_and_a_key_without_effect_is_not() {
    let problem = |line, message: &str, refused| AgentProblem {
        file: "/home/me/x.md".into(),
        line: Some(line),
        message: message.into(),
        refused,
    };
    let mut wrong = state();
    wrong.problems = vec![
        problem(2, "`color` has no effect here", false),
        problem(3, "`modes` is not a key", true),
    ];
    let stage = stage(wrong).await;
    let screen = stage.tui.wait_for_text("/home/me/x.md:3").await;
    assert!(!screen.contains("color"), "{}", screen.text());
}
