//! Choosing a message, looking at what going back to it does, and doing it.

use bezel_api_tui::{
    CommandArguments, CommandResult, Message, Select, SelectItem, Toast, TuiContext,
};
use bezel_context::Context;
use bezel_presentation::format;
use bezel_rewind_contract::{
    Availability, ChangeKind, FileChange, LeftAlone, Origin, Preview, Progress, Reach,
    RewindClient, StageRequest,
};
use bezel_session_types::EntryId;

/// What a person does with a preview.
#[derive(Debug, Clone, PartialEq)]
enum Choice {
    Stage { reach: Reach, force: bool },
    Look(FileChange),
    Nothing,
}

/// Lets the person choose a message and goes back to before it.
pub(crate) async fn choose(
    context: TuiContext,
    cx: Context,
    rewind: RewindClient,
) -> CommandResult {
    if is_unavailable(&context, &rewind) {
        return Ok(());
    }
    let state = rewind.state().get();
    let points = state.points.iter().rev();
    let items = points.map(|point| {
        let detail = match (&point.problem, point.files_since) {
            (Some(problem), 0) => format!("not known: {problem}"),
            (Some(_), since) => {
                format!("{} since, and some that are not known", crate::files(since))
            }
            (None, 0) => "no file changed since".to_owned(),
            (None, since) if point.files == since => crate::files(since),
            (None, since) => format!(
                "{} since · {} by its turn",
                crate::files(since),
                point.files
            ),
        };
        let staged = state.staged.as_ref();
        SelectItem::new(point.text.clone(), point.message.clone())
            .detail(detail)
            .current(staged.is_some_and(|staged| staged.message == point.message))
    });
    let select = Select::new("Go back to before a message")
        .placeholder("search the messages")
        .empty("nothing was said yet")
        .items(items);
    match context.ui.select(&cx, select).await {
        Some(selected) => go_back(&context, &cx, &rewind, selected.value).await,
        None => Ok(()),
    }
}

/// Goes back to before the newest message whose turn changed something.
pub(crate) async fn take_back_last(
    context: TuiContext,
    cx: Context,
    rewind: RewindClient,
) -> CommandResult {
    if is_unavailable(&context, &rewind) {
        return Ok(());
    }
    let state = rewind.state().get();
    let staged = state.staged.as_ref().map(|staged| &staged.message);
    // With something staged already, one more step back.
    let place = state
        .points
        .iter()
        .position(|point| Some(&point.message) == staged);
    let earlier = &state.points[..place.unwrap_or(state.points.len())];
    match earlier
        .iter()
        .rfind(|point| point.files > 0 && point.files_since > 0)
    {
        Some(point) => go_back(&context, &cx, &rewind, point.message.clone()).await,
        None => {
            context.ui.toast(Toast::info(
                "the agent has changed no file that could be taken back",
            ));
            Ok(())
        }
    }
}

async fn go_back(
    context: &TuiContext,
    cx: &Context,
    rewind: &RewindClient,
    message: EntryId,
) -> CommandResult {
    let preview = rewind.preview(cx, message.clone()).await?;
    loop {
        let select = Select::new("What goes back")
            .placeholder("enter goes back; on a file it shows the difference")
            .items(items(&preview));
        let Some(selected) = context.ui.select(cx, select).await else {
            return Ok(());
        };
        match selected.value {
            Choice::Stage { reach, force } => {
                let request = StageRequest {
                    message,
                    reach,
                    force,
                };
                let staged = rewind.stage(cx, request).await?;
                let files = crate::files(staged.total);
                let told = match (reach, staged.reach) {
                    (Reach::Files, _) => Toast::success(format!("{files} put back")),
                    (_, Reach::FilesAndConversation) => Toast::success(format!(
                        "{files} put back; the conversation goes back with what you send next"
                    )),
                    (_, Reach::Files) => {
                        let problem = rewind.state().get().problem.clone();
                        let problem = problem.unwrap_or_else(|| "the conversation stays".into());
                        Toast::warning(format!("{files} put back; {problem}"))
                    }
                };
                context.ui.toast(told);
                crate::tell_copies(context, &staged.set_aside);
                if staged.reach == Reach::FilesAndConversation {
                    // To be said again in other words.
                    let said = CommandArguments::text(staged.said);
                    context.commands.run("chat.write", said);
                }
                return Ok(());
            }
            Choice::Look(file) => {
                context
                    .ui
                    .message(cx, Message::new(file.path.clone(), difference(&file)))
                    .await;
            }
            Choice::Nothing => {}
        }
    }
}

fn items(preview: &Preview) -> Vec<SelectItem<Choice>> {
    let mut items = Vec::new();
    let count = crate::files(preview.total);
    let edited = preview
        .left_alone
        .iter()
        .filter(|left| is_edited(left))
        .count();
    // Short, so that they fit beside the preview.
    let mut offer = |text: String, reach: Reach, force: bool| {
        let item = SelectItem::new(text, Choice::Stage { reach, force });
        items.push(item.preview(summary(preview)));
    };
    let both = Reach::FilesAndConversation;
    if preview.files.is_empty() {
        offer("The conversation; no file differs".into(), both, false);
    } else {
        offer(format!("{count} and the conversation"), both, false);
        offer(
            format!("{count}; the conversation stays"),
            Reach::Files,
            false,
        );
    }
    if edited > 0 {
        let edited = format::count(edited, "file", "files");
        offer(format!("Both, and the {edited} edited since"), both, true);
        offer(
            format!("Files, and the {edited} edited since"),
            Reach::Files,
            true,
        );
    }
    for file in &preview.files {
        let item = SelectItem::new(file.path.clone(), Choice::Look(file.clone()));
        items.push(
            item.detail(short(file))
                .group("Files")
                .preview(difference(file)),
        );
    }
    for left in &preview.left_alone {
        let item = SelectItem::new(left.path.clone(), Choice::Nothing);
        items.push(item.detail(left.reason.clone()).group("Left alone"));
    }
    items
}

/// Only what a person did can be overruled; what is not kept cannot come back.
fn is_edited(left: &LeftAlone) -> bool {
    left.reason.starts_with("it was edited")
}

fn summary(preview: &Preview) -> String {
    let mut text = "This can be undone until you keep it.\n\n".to_owned();
    for file in preview.files.iter().take(40) {
        text.push_str(&format!("- `{}` {}\n", file.path, short(file)));
    }
    if preview.total > 40 {
        text.push_str(&format!("- and {} more\n", preview.total - 40));
    }
    if !preview.left_alone.is_empty() {
        text.push_str("\nLeft alone:\n\n");
        for left in preview.left_alone.iter().take(20) {
            text.push_str(&format!("- `{}`: {}\n", left.path, left.reason));
        }
    }
    if preview
        .files
        .iter()
        .any(|file| file.origin != Origin::Named)
    {
        text.push_str(
            "\nWhat you changed yourself while a command of the agent ran cannot be told apart and goes back too.\n",
        );
    }
    for gap in &preview.gaps {
        text.push_str(&format!("\nThe changes of one turn are not known: {gap}\n"));
    }
    text
}

fn short(file: &FileChange) -> String {
    let what = match file.kind {
        ChangeKind::Created => "comes back",
        ChangeKind::Removed => "goes",
        ChangeKind::Changed => "changes",
        ChangeKind::Mode => "gets other permissions",
        ChangeKind::Replaced => "becomes something else",
    };
    let what = match (file.added, file.removed) {
        (0, 0) => what.to_owned(),
        (added, removed) => format!("{what} +{added} −{removed}"),
    };
    match file.origin {
        Origin::Named => what,
        Origin::Command => format!("{what} · by a command"),
        Origin::Crash => format!("{what} · around a crash"),
    }
}

/// As Markdown; the fence is longer than any in the text.
fn difference(file: &FileChange) -> String {
    if file.patch.is_empty() {
        return format!("{}; there is no text to show.", short(file));
    }
    let longest = file
        .patch
        .split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}diff\n{}\n{fence}", file.patch.trim_end())
}

fn is_unavailable(context: &TuiContext, rewind: &RewindClient) -> bool {
    let state = rewind.state().get();
    match &state.availability {
        Availability::Available if !state.loaded => {
            let text = match state.progress {
                Some(Progress { done, total }) => format!(
                    "a rewind that was cut off is being finished: {done} of {total} are written"
                ),
                None => "the checkpoints are still being read; try again in a moment".to_owned(),
            };
            context.ui.toast(Toast::info(text));
            true
        }
        Availability::Available => false,
        Availability::Unavailable { reason } => {
            context
                .ui
                .toast(Toast::warning(format!("files cannot be rewound: {reason}")));
            true
        }
    }
}
