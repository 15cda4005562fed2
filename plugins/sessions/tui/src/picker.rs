//! Choosing a session from the directory, and changing it there.

use std::time::Duration;

use bezel_api_tui::{
    Command, CommandArguments, CommandResult, Confirm, Input, Select, SelectItem, Toast, TuiContext,
};
use bezel_context::Context;
use bezel_presentation::clock::Clock;
use bezel_presentation::format;
use bezel_session_types::{EntryId, SessionId};
use bezel_sessions_contract::{ForkRequest, SessionStatus, SessionSummary, waiting};

use crate::desk::Desk;

const NEW: &str = "new";
const RENAME: &str = "rename";
const DELETE: &str = "delete";
const ARCHIVE: &str = "archive";
const TAKE_BACK: &str = "take back";
const ARCHIVED: &str = "archived";
const LISTED: &str = "others";

/// What the list shows of a session that nobody named and nobody wrote in.
pub(crate) const UNTITLED: &str = "new session";

/// Lets the person choose a session; the list stays while they change others. What sessions began is left out, and
/// archived ones are shown when they are asked for. False when they chose none.
pub(crate) async fn pick(
    context: &TuiContext,
    cx: &Context,
    desk: &Desk,
    clock: &Clock,
    query: &str,
) -> Result<bool, bezel_api_tui::CommandError> {
    loop {
        let select = Select::new("Sessions")
            .placeholder("search sessions; ctrl+o shows archived ones")
            .query(query)
            .empty("no sessions yet")
            .items(items(
                &desk.parts().sessions.get().sessions,
                desk.current().as_ref(),
                clock,
            ))
            .action("ctrl+n", NEW)?
            .action("ctrl+r", RENAME)?
            .action("ctrl+d", DELETE)?
            .action("ctrl+s", ARCHIVE)?
            .action("ctrl+o", ARCHIVED)?;
        let (feed, followed, now) = (select.feed(), desk.clone(), clock.clone());
        feed.loading(!desk.parts().sessions.is_ready());
        let _followed = desk.parts().sessions.subscribe(move |state, _| {
            feed.replace(items(&state.sessions, followed.current().as_ref(), &now));
            feed.loading(!followed.parts().sessions.is_ready());
        });
        let Some(selected) = context.ui.select(cx, select).await else {
            return Ok(false);
        };
        match selected.action.as_deref() {
            None => {
                desk.open(cx, selected.value.session_id).await?;
                return Ok(true);
            }
            Some(NEW) => {
                desk.create(cx).await?;
                return Ok(true);
            }
            Some(RENAME) => rename(context, cx, desk, &selected.value).await?,
            Some(ARCHIVE) => archive(context, cx, desk, &selected.value).await?,
            Some(ARCHIVED) => {
                if pick_archived(context, cx, desk, clock).await? {
                    return Ok(true);
                }
            }
            Some(_) => delete(context, cx, desk, &selected.value).await?,
        }
    }
}

/// The same of the sessions that were archived. False when the person went back to the others.
async fn pick_archived(
    context: &TuiContext,
    cx: &Context,
    desk: &Desk,
    clock: &Clock,
) -> Result<bool, bezel_api_tui::CommandError> {
    loop {
        let sessions = desk.archived(cx).await?;
        if sessions.is_empty() {
            context.ui.toast("no session is archived");
            return Ok(false);
        }
        let select = Select::new("Archived sessions")
            .placeholder("search archived sessions")
            .items(items(&sessions, desk.current().as_ref(), clock))
            .action("ctrl+d", DELETE)?
            .action("ctrl+s", TAKE_BACK)?
            .action("ctrl+o", LISTED)?;
        let Some(selected) = context.ui.select(cx, select).await else {
            return Ok(false);
        };
        match selected.action.as_deref() {
            None => {
                desk.open(cx, selected.value.session_id).await?;
                return Ok(true);
            }
            Some(LISTED) => return Ok(false),
            Some(TAKE_BACK) => {
                let management = &desk.parts().management;
                management
                    .archive(cx, selected.value.session_id, false)
                    .await?;
            }
            Some(_) => delete(context, cx, desk, &selected.value).await?,
        }
    }
}

/// Puts a session away. The open one stays open, and so it stays listed.
async fn archive(
    context: &TuiContext,
    cx: &Context,
    desk: &Desk,
    session: &SessionSummary,
) -> CommandResult {
    if desk.current().as_ref() == Some(&session.session_id) {
        let open = "this session is open: open another one, and archive it from the list then";
        context.ui.toast(Toast::warning(open));
        return Ok(());
    }
    let management = &desk.parts().management;
    management
        .archive(cx, session.session_id.clone(), true)
        .await?;
    let note = format!("{} is archived; ctrl+o shows it", title(session));
    context.ui.toast(Toast::success(note));
    Ok(())
}

/// Asks for another title.
pub(crate) async fn rename(
    context: &TuiContext,
    cx: &Context,
    desk: &Desk,
    session: &SessionSummary,
) -> CommandResult {
    let input = Input::new("Rename the session")
        .initial(session.title.as_str())
        .placeholder("title")
        .check(|title| {
            title
                .trim()
                .is_empty()
                .then(|| "a session needs a title".into())
        });
    if let Some(title) = context.ui.input(cx, input).await {
        desk.parts()
            .management
            .rename(cx, session.session_id.clone(), title.trim().to_owned())
            .await?;
    }
    Ok(())
}

/// Asks whether to delete, and deletes.
pub(crate) async fn delete(
    context: &TuiContext,
    cx: &Context,
    desk: &Desk,
    session: &SessionSummary,
) -> CommandResult {
    let title = title(session);
    let mut body = format!(
        "Delete **{}** with everything that was said in it? It cannot be brought back.",
        escaped(title)
    );
    if let SessionStatus::Active | SessionStatus::Waiting = session.status {
        body.push_str("\n\nThe agent is working in it now; that ends too.");
    }
    let confirm = Confirm::new("Delete the session", body)
        .labels("Delete", "Keep")
        .danger();
    if context.ui.confirm(cx, confirm).await {
        desk.delete(cx, session.session_id.clone()).await?;
        context.ui.toast(Toast::success("the session is deleted"));
    }
    Ok(())
}

/// Copies the open session: the path to where it stands, or to the entry that another facet names, or the
/// whole tree.
async fn fork(
    context: &TuiContext,
    cx: &Context,
    desk: &Desk,
    arguments: &CommandArguments,
) -> CommandResult {
    let at = arguments
        .value
        .get("entry")
        .and_then(|entry| entry.as_str());
    let whole_tree = match arguments.text.as_str() {
        "path" => false,
        "all" | "tree" => true,
        "" => {
            let select = Select::new("What does the new session take?")
                .item(SelectItem::new("This path", false).detail("what leads to this place"))
                .item(
                    SelectItem::new("The whole tree", true)
                        .detail("every branch, and their labels"),
                );
            match context.ui.select(cx, select).await {
                Some(selected) => selected.value,
                None => return Ok(()),
            }
        }
        other => return Err(format!("/fork takes `path` or `all`, not `{other}`").into()),
    };
    let request = ForkRequest {
        at: at.map(EntryId::new),
        whole_tree,
        title: None,
    };
    desk.fork(cx, request).await?;
    let note = "this is the new session; the one before is in /sessions";
    context.ui.toast(Toast::success(note));
    Ok(())
}

/// A title, or what stands for a missing one.
pub(crate) fn title(session: &SessionSummary) -> &str {
    if session.title.is_empty() {
        UNTITLED
    } else {
        &session.title
    }
}

/// Text as Markdown that means nothing else.
fn escaped(text: &str) -> String {
    let special = |letter: char| letter.is_ascii_punctuation();
    text.chars()
        .flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter]))
        .collect()
}

fn items(
    sessions: &[SessionSummary],
    current: Option<&SessionId>,
    clock: &Clock,
) -> Vec<SelectItem<SessionSummary>> {
    // Those that sessions began are chosen where those show them; one that is open is here.
    let shown: Vec<&SessionSummary> = sessions
        .iter()
        .filter(|session| session.parent_id.is_none() || Some(&session.session_id) == current)
        .collect();
    let workspace = shown
        .iter()
        .find(|session| Some(&session.session_id) == current)
        .map(|session| &session.workspace_id);
    let here = |session: &SessionSummary| {
        workspace.is_none_or(|workspace| *workspace == session.workspace_id)
    };
    let waiting = waiting(sessions);
    let item = |session: &SessionSummary, group: Option<&'static str>| {
        let mut parts = Vec::new();
        if group != Some(HERE) && !session.workspace_name.is_empty() {
            parts.push(session.workspace_name.clone());
        }
        parts.extend(clock.since(&session.updated_at).map(ago));
        let status = match waiting.contains(&session.session_id) {
            true => Some(WAITS),
            false => status(session.status),
        };
        parts.extend(status.map(str::to_owned));
        let item = SelectItem::new(title(session).to_owned(), session.clone())
            .detail(parts.join(" · "))
            .search(format!("{} {}", session.workspace_name, session.session_id))
            .current(Some(&session.session_id) == current);
        match group {
            Some(group) => item.group(group),
            None => item,
        }
    };
    let elsewhere = shown.iter().any(|session| !here(session));
    let group = |name: &'static str| elsewhere.then_some(name);
    let near = shown
        .iter()
        .filter(|session| here(session))
        .map(|session| item(session, group(HERE)));
    let far = shown
        .iter()
        .filter(|session| !here(session))
        .map(|session| item(session, group(ELSEWHERE)));
    near.chain(far).collect()
}

const HERE: &str = "This project";
const ELSEWHERE: &str = "Other projects";
const WAITS: &str = "waits for you";

fn ago(elapsed: Duration) -> String {
    match format::ago(elapsed).as_str() {
        "now" => "just now".to_owned(),
        ago => format!("{ago} ago"),
    }
}

fn status(status: SessionStatus) -> Option<&'static str> {
    match status {
        SessionStatus::Starting => Some("starting"),
        SessionStatus::Active => Some("working"),
        SessionStatus::Waiting => Some(WAITS),
        SessionStatus::Unreachable => Some("stopped"),
        SessionStatus::Idle | SessionStatus::Closed => None,
    }
}

/// The commands of sessions.
pub(crate) fn add_commands(cx: &TuiContext, desk: &Desk, clock: &Clock) {
    let (context, own, now) = (cx.clone(), desk.clone(), clock.clone());
    cx.commands.add(
        Command::new("sessions.switch", "Switch to another session")
            .description("Searches all sessions; also renames, archives and deletes them")
            .slash("sessions")
            .alias("resume")
            .run(move |cx, arguments| {
                let (context, desk, clock) = (context.clone(), own.clone(), now.clone());
                async move {
                    pick(&context, &cx, &desk, &clock, &arguments.text)
                        .await
                        .map(drop)
                }
            }),
    );
    let own = desk.clone();
    cx.commands.add(
        Command::new("sessions.new", "Begin a new session")
            .description("In the directory in which you started; the current one goes on")
            .slash("new")
            .alias("clear")
            .run(move |cx, _| {
                let desk = own.clone();
                async move { Ok(desk.create(&cx).await?) }
            }),
    );
    let (context, own, shown) = (cx.clone(), desk.clone(), desk.clone());
    cx.commands.add(
        Command::new("sessions.rename", "Rename the session")
            .slash("rename")
            .argument_hint("[title]")
            .enabled(move || shown.summary().is_some())
            .run(move |cx, arguments| {
                let (context, desk) = (context.clone(), own.clone());
                async move {
                    let Some(session) = desk.summary() else {
                        return Ok(());
                    };
                    if arguments.text.is_empty() {
                        return rename(&context, &cx, &desk, &session).await;
                    }
                    desk.parts()
                        .management
                        .rename(&cx, session.session_id, arguments.text)
                        .await?;
                    Ok(())
                }
            }),
    );
    let (context, own, shown) = (cx.clone(), desk.clone(), desk.clone());
    cx.commands.add(
        Command::new("sessions.delete", "Delete the session")
            .description("Asks first")
            .slash("delete")
            .enabled(move || shown.summary().is_some())
            .run(move |cx, _| {
                let (context, desk) = (context.clone(), own.clone());
                async move {
                    match desk.summary() {
                        Some(session) => delete(&context, &cx, &desk, &session).await,
                        None => Ok(()),
                    }
                }
            }),
    );
    let (context, own, shown) = (cx.clone(), desk.clone(), desk.clone());
    cx.commands.add(
        Command::new("sessions.fork", "Fork the session")
            .description(
                "Copies the conversation into a new session and opens it; this one stays as it is",
            )
            .slash("fork")
            .argument_hint("[path|all]")
            .enabled(move || shown.summary().is_some())
            .run(move |cx, arguments| {
                let (context, desk) = (context.clone(), own.clone());
                async move { fork(&context, &cx, &desk, &arguments).await }
            }),
    );
    let own = desk.clone();
    cx.commands.add(
        Command::new("sessions.open", "Open a session")
            .description("The one that the command is given as `session_id`: for other commands")
            .hidden()
            .run(move |cx, arguments| {
                let desk = own.clone();
                async move {
                    let named = arguments.value.get("session_id").and_then(|id| id.as_str());
                    match named {
                        Some(id) => Ok(desk.open(&cx, SessionId::new(id)).await?),
                        None => Err("which session is to be opened was not said".into()),
                    }
                }
            }),
    );
    let own = desk.clone();
    cx.commands.add(
        Command::new("sessions.restart", "Start the session's process again")
            .description("For one that stopped, or after a change of the configuration; not while something runs in it")
            .slash("restart")
            .run(move |cx, _| {
                let desk = own.clone();
                async move { Ok(desk.restart(&cx).await?) }
            }),
    );
}
