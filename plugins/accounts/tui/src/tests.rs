//! The dialog in a terminal, before a session that the test plays.

use std::sync::Arc;

use bezel_accounts_contract::{
    Account, Accounts, AccountsClient, AccountsError, AccountsState, CredentialSource,
};
use bezel_api_tui::{Binding, Facet, Placement, Slot, TuiContext, segment};
use bezel_context::Context;
use bezel_host_tui::{HarnessOptions, TuiHarness};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;
use bezel_rpc::{State, StateCell};
use bezel_testkit::{FakeServer, FakeWorker};
use tokio::sync::watch;

use crate::facet;

struct Played {
    state: StateCell<AccountsState>,
    removed: watch::Sender<Vec<String>>,
}

struct Fake(Arc<Played>);

impl Accounts for Fake {
    fn state(&self) -> State<AccountsState> {
        self.0.state.state()
    }

    async fn remove(&self, cx: &Context, provider: String) -> Result<(), AccountsError> {
        self.0
            .removed
            .send_modify(|removed| removed.push(provider.clone()));
        self.0.state.update(cx, |state| {
            for account in state
                .providers
                .iter_mut()
                .filter(|account| account.provider == provider)
            {
                (account.configured, account.source) = (false, None);
            }
        });
        Ok(())
    }
}

async fn stage() -> (TuiHarness, Arc<Played>, FakeServer, FakeWorker) {
    let account = |provider: &str, configured, source| Account {
        provider: provider.into(),
        configured,
        source,
    };
    let providers = vec![
        account("anthropic", true, Some(CredentialSource::Environment)),
        account("openai", true, Some(CredentialSource::Store)),
        account("gemini", false, None),
        account("ollama", true, None),
        account("work", true, Some(CredentialSource::Command)),
    ];
    let played = Arc::new(Played {
        state: StateCell::new(AccountsState { providers }),
        removed: watch::Sender::default(),
    });
    let server = FakeServer::new();
    let extra = Facet::new("extra", |cx: TuiContext| async move {
        let (accounts, ui): (AccountsClient, _) = (cx.session.use_service(), cx.ui.clone());
        cx.own(accounts.state().subscribe(move |_, _| ui.redraw()));
        let shown = move |_: &bezel_api_tui::RenderContext<'_>| {
            accounts
                .state()
                .is_ready()
                .then(|| StyledLine::new("[ready]", Role::Status))
        };
        cx.slots
            .add(Slot::StatusRight, Placement::default(), segment(shown));
        cx.keybindings.add(Binding::new("f2", "accounts.show")?);
        Ok(())
    });
    let options = HarnessOptions {
        facets: vec![facet(), extra],
        connect: Some(server.connect()),
        ..HarnessOptions::default()
    };
    let tui = TuiHarness::start(options).await.unwrap();
    let worker = server.worker("one");
    worker
        .provide(&AccountsClient::new(Fake(Arc::clone(&played))))
        .unwrap();
    worker.activate();
    server.attach("one").await.unwrap();
    tui.wait_for_text("[ready]").await;
    (tui, played, server, worker)
}

#[tokio::test]
async fn every_provider_says_whether_it_has_a_key_and_from_where() {
    let (tui, _played, _server, _worker) = stage().await;
    tui.press("f2").await;
    let screen = tui.wait_for_text("ollama").await;
    insta::assert_snapshot!(screen.text());
}

#[tokio::test]
async fn a_stored_key_is_removed_after_a_question() {
    let (tui, played, _server, _worker) = stage().await;
    tui.press("f2").await;
    tui.wait_for_text("ollama").await;
    tui.type_text("openai").await;
    tui.press("ctrl+d").await;
    let screen = tui.wait_for_text("Forget the stored key of openai?").await;
    insta::assert_snapshot!(screen.text());
    // No is what enter means here.
    tui.press("enter").await;
    tui.wait_for(|screen| screen.contains("Accounts") && !screen.contains("Forget"))
        .await;
    assert!(played.removed.borrow().is_empty());
    tui.type_text("openai").await;
    tui.press("ctrl+d").await;
    tui.wait_for_text("Forget the stored key of openai?").await;
    tui.press("left").await;
    tui.press("enter").await;
    tui.wait_for_text("the key of openai is removed").await;
    assert_eq!(*played.removed.borrow(), ["openai"]);
    tui.wait_for_text("○ openai").await;
}

#[tokio::test]
async fn what_is_not_stored_cannot_be_removed_and_says_why() {
    let (tui, played, _server, _worker) = stage().await;
    tui.press("f2").await;
    tui.wait_for_text("ollama").await;
    tui.press("ctrl+d").await;
    tui.wait_for_text("nothing is stored for anthropic").await;
    assert!(played.removed.borrow().is_empty());
}
