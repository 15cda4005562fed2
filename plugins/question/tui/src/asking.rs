//! Asks the person what the session asks.

use std::collections::HashMap;
use std::sync::Arc;

use bezel_api_tui::{Answer, Ask, AskOption, Toast, TuiContext, Ui};
use bezel_context::{CancelHandle, Context};
use bezel_question_contract::{PendingQuestion, QuestionResponse, QuestionsClient};
use bezel_rpc::{AttachmentState, State};
use bezel_session_types::{InvocationId, SubmitOutcome};
use bezel_sessions_contract::{DirectoryState, SessionDirectoryClient, title_when_listed};
use tokio::sync::Notify;

/// A question that is being asked; it is taken back when this is dropped.
struct Open(CancelHandle);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Keeps a dialog for each question that waits, for as long as the facet lives.
pub(crate) fn follow(cx: &TuiContext) {
    let questions: QuestionsClient = cx.session.use_service();
    let (pending, attachment) = (questions.pending(), cx.session.attachment());
    let directory: SessionDirectoryClient = cx.server.use_service();
    let sessions = directory.state();
    let changed = Arc::new(Notify::new());
    let heard = Arc::clone(&changed);
    cx.own(pending.subscribe(move |_, _| heard.notify_one()));
    let heard = Arc::clone(&changed);
    cx.own(attachment.subscribe(move |_, _| heard.notify_one()));
    let (ui, spawner) = (cx.ui.clone(), cx.spawner().clone());
    cx.spawner().spawn("questions", async move {
        let mut open: HashMap<InvocationId, Open> = HashMap::new();
        loop {
            let waiting = waiting(&pending, &attachment);
            open.retain(|id, _| waiting.iter().any(|question| question.id == *id));
            for question in waiting {
                if open.contains_key(&question.id) {
                    continue;
                }
                let (cx, cancel) = Context::background().with_cancel();
                open.insert(question.id.clone(), Open(cancel));
                let (ui, questions, sessions) = (ui.clone(), questions.clone(), sessions.clone());
                spawner.spawn("question", async move {
                    let asker = name(&cx, &sessions, &question).await;
                    ask(&cx, &ui, &questions, question, asker.as_deref()).await;
                });
            }
            changed.notified().await;
        }
    });
}

/// What the attached session asks. Nothing while that is not known: another session's questions are not
/// answered here, and an answer would not arrive.
fn waiting(
    pending: &State<Vec<PendingQuestion>>,
    attachment: &State<AttachmentState>,
) -> Vec<PendingQuestion> {
    match attachment.get().is_attached() && pending.is_ready() && !pending.is_stale() {
        true => pending.get().to_vec(),
        false => Vec::new(),
    }
}

/// Asks until the answer is taken, or is no longer wanted.
async fn ask(
    cx: &Context,
    ui: &Ui,
    questions: &QuestionsClient,
    question: PendingQuestion,
    asker: Option<&str>,
) {
    let id = question.id.clone();
    loop {
        let Some(answer) = ui.ask(cx, dialog(&question, asker)).await else {
            return;
        };
        let response = match answer {
            Answer::Option(index) => QuestionResponse::Selected {
                index: u32::try_from(index).unwrap_or(u32::MAX),
            },
            Answer::Text(answer) => QuestionResponse::Custom { answer },
            Answer::Cancel => QuestionResponse::Cancelled,
        };
        // Not with `cx`: that the question is gone is what the answer is for.
        let own = Context::background();
        match questions.submit_answer(&own, id.clone(), response).await {
            Ok(SubmitOutcome::Accepted) => return,
            Ok(SubmitOutcome::NotPending) => {
                ui.toast(Toast::info("The question was answered elsewhere"));
                return;
            }
            Err(error) => ui.toast(Toast::error(format!("The answer did not arrive: {error}"))),
        }
        if cx.is_cancelled() {
            return;
        }
    }
}

fn dialog(question: &PendingQuestion, asker: Option<&str>) -> Ask {
    let title = match asker {
        Some(asker) => format!("Question of {asker}"),
        None => "Question".to_owned(),
    };
    let request = &question.request;
    let mut ask = Ask::new(title, request.question.as_str());
    for option in &request.options {
        let detail = option.description.as_deref().unwrap_or_default();
        ask = ask.option(AskOption::new(option.label.as_str()).detail(detail));
    }
    ask.text("Write something else").cancel("Don't answer")
}

/// The subagent that asks, by the title of its session.
async fn name(
    cx: &Context,
    sessions: &State<DirectoryState>,
    pending: &PendingQuestion,
) -> Option<String> {
    let asker = pending.asker.as_ref()?;
    let title = title_when_listed(cx, sessions, asker).await;
    Some(title.map_or_else(
        || "a subagent".to_owned(),
        |title| format!("the subagent “{title}”"),
    ))
}
