//! The host with a server behind it.

use std::sync::Arc;

use bezel_api_tui::{Placement, Slot, segment};
use bezel_context::{ClientId, Context, Principal, Scopes, Workspaces};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;
use bezel_rpc::{
    AcceptedRole, Acceptor, Authenticate, Authenticated, Hello, Limits, PeerIdentity, Refusal,
    Router, ServiceTable, State, StateCell, service,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::support::{basics, facet};
use crate::{HarnessOptions, TuiHarness};

/// A clock.
#[service("clock", version = "1.0")]
pub trait Clock {
    /// The time.
    fn state(&self) -> State<String>;
}

struct Wall(StateCell<String>);

impl Clock for Wall {
    fn state(&self) -> State<String> {
        self.0.state()
    }
}

struct Anyone;

impl Authenticate for Anyone {
    fn authenticate<'a>(
        &'a self,
        _hello: &'a Hello,
        _peer: &'a PeerIdentity,
    ) -> BoxFuture<'a, Result<Authenticated, Refusal>> {
        let principal = Principal {
            client: ClientId::new("c"),
            owner: "me".into(),
            workspaces: Workspaces::All,
            scopes: Scopes::all(),
            credential: None,
        };
        async {
            Ok(Authenticated {
                principal,
                role: AcceptedRole::Presentation,
                issued: None,
            })
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_facet_shows_the_state_of_a_service_of_the_server() {
    let cell = StateCell::new("12:00".to_owned());
    let table = ServiceTable::new();
    table
        .provide(bezel_rpc::ServiceClient::exposed(&ClockClient::new(Wall(
            cell.clone(),
        ))))
        .unwrap();
    table.activate();
    let acceptor = Acceptor::new(table, Arc::new(Anyone), Router::new(), Limits::default());
    let clock = facet("clock", |cx| {
        let state = cx.server.use_service::<ClockClient>().state();
        let ui = cx.ui.clone();
        cx.own(state.subscribe(move |_, _| ui.redraw()));
        cx.slots.add(
            Slot::StatusRight,
            Placement::default(),
            segment(move |_| {
                state
                    .is_ready()
                    .then(|| StyledLine::new(state.get().to_string(), Role::Status))
            }),
        );
        Ok(())
    });
    let options = HarnessOptions {
        facets: vec![basics(), clock],
        connect: Some(acceptor.local(PeerIdentity::local())),
        ..HarnessOptions::default()
    };
    let tui = TuiHarness::start(options).await.unwrap();
    tui.wait_for_text("12:00").await;
    cell.set(&Context::background(), "12:01".into());
    tui.wait_for_text("12:01").await;
    let exit = tui.stop().await;
    assert!(exit.failures.is_empty());
}
