//! The session picker, the header that names the session, and how connection and session stand.
//!
//! This facet decides which session is open: the one that was asked for at the start, then whichever the
//! person chooses. It attaches it again after a lost connection, and starts a worker that died again.

mod desk;
mod picker;
mod status;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bezel_api_tui::{
    Binding, Facet, FacetError, Namespace, Placement, Slot, Toast, TuiContext, TuiFacet, Ui,
    segment,
};
use bezel_chat_contract::ChatClient;
use bezel_context::Context;
use bezel_presentation::clock::Clock;
use bezel_sessions_contract::{
    SessionDirectoryClient, SessionForkClient, SessionManagementClient, SessionProcessClient,
};

pub use desk::SessionsConfig;

use crate::desk::{Desk, Parts};

/// How long leaving may wait for empty sessions to be deleted.
const TIDY: Duration = Duration::from_secs(2);

/// The terminal facet of sessions.
pub fn facet() -> TuiFacet {
    facet_at(Clock::system())
}

fn facet_at(clock: Clock) -> TuiFacet {
    Facet::new("sessions", move |cx| setup(cx, clock.clone()))
        .configured::<SessionsConfig>()
        .requires::<SessionDirectoryClient>(Namespace::Server)
        .requires::<SessionManagementClient>(Namespace::Server)
        .optional::<ChatClient>(Namespace::Session)
        .optional::<SessionProcessClient>(Namespace::Session)
        .optional::<SessionForkClient>(Namespace::Session)
}

async fn setup(cx: TuiContext, clock: Clock) -> Result<(), FacetError> {
    let directory: SessionDirectoryClient = cx.server.use_service();
    let chat: ChatClient = cx.session.use_service();
    let desk = Desk::new(Parts {
        ui: cx.ui.clone(),
        sessions: directory.state(),
        directory,
        management: cx.server.use_service(),
        fork: cx.session.use_service(),
        process: cx.session.use_service(),
        chat: chat.state(),
        attachment: cx.session.attachment(),
        connection: cx.connection.clone(),
        launch: cx.launch.clone(),
        config: cx.config()?,
    });
    cx.slots.add(
        Slot::Header,
        Placement::default(),
        status::Header(desk.clone()),
    );
    let (shown, now) = (desk.clone(), clock.clone());
    let status = segment(move |cx| Some(status::line(&shown, &now, cx)));
    cx.slots.add(
        Slot::StatusLeft,
        Placement::order(0).importance(100),
        status,
    );
    picker::add_commands(&cx, &desk, &clock);
    cx.keybindings
        .add(Binding::new("ctrl+x s", "sessions.switch")?);
    cx.keybindings
        .add(Binding::new("ctrl+x n", "sessions.new")?);

    follow(&cx, &desk);
    let (context, kept, spawner) = (cx.clone(), desk.clone(), cx.spawner().clone());
    cx.on_activate(move || async move {
        spawner.spawn("session", async move {
            let (cx, cancel) = Context::background().with_cancel();
            let _ends_with_the_facet = cancel.drop_guard();
            let choosing = (context.clone(), kept.clone(), clock);
            kept.keep(&cx, || choose(&choosing.0, &choosing.1, &choosing.2))
                .await;
        });
        Ok(())
    });
    cx.on_dispose(move || async move {
        desk.tidy(&Context::background().with_timeout(TIDY)).await;
        Ok(())
    });
    Ok(())
}

/// Lets the person choose at the start; who chooses nothing gets a new session.
fn choose(context: &TuiContext, desk: &Desk, clock: &Clock) {
    let (context, desk, clock) = (context.clone(), desk.clone(), clock.clone());
    context
        .spawner()
        .clone()
        .spawn("first session", async move {
            let cx = Context::background();
            let opened = match picker::pick(&context, &cx, &desk, &clock, "").await {
                Ok(false) => desk.create(&cx).await.map_err(Into::into),
                Ok(true) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = opened {
                context.ui.toast(Toast::error(error.to_string()));
            }
        });
}

/// Draws and names the terminal anew when something changes.
fn follow(cx: &TuiContext, desk: &Desk) {
    let ui = cx.ui.clone();
    cx.own(desk.parts().connection.subscribe(move |_, _| ui.redraw()));
    let title = Arc::new(Title {
        ui: cx.ui.clone(),
        desk: desk.clone(),
        shown: Mutex::default(),
    });
    let own = Arc::clone(&title);
    cx.own(desk.parts().attachment.subscribe(move |_, _| own.follow()));
    cx.own(desk.parts().sessions.subscribe(move |_, _| title.follow()));
}

/// The terminal's title: what the session is about.
struct Title {
    ui: Ui,
    desk: Desk,
    // A plain mutex: held to compare and set.
    shown: Mutex<String>,
}

impl Title {
    fn follow(&self) {
        let title = match self.desk.summary() {
            Some(session) if !session.title.is_empty() => format!("{} · bezel", session.title),
            _ => "bezel".to_owned(),
        };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if *shown != title {
            self.ui.set_title(title.clone());
            *shown = title;
        }
        drop(shown);
        self.ui.redraw();
    }
}

#[cfg(test)]
mod tests;
