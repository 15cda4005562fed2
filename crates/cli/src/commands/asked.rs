//! `bezel session pending` and `bezel session answer`: all that a session waits for, and the answer to a question
//! from elsewhere. The reply to what needs permission is in [`permit`].

use std::io::{self, Write};

use anyhow::anyhow;
use bezel_context::Context;
use bezel_host_headless::plain_line;
use bezel_permissions_contract::PermissionsClient;
use bezel_question_contract::{AnswerError, PendingQuestion, QuestionResponse, QuestionsClient};
use bezel_rpc::{CallError, Link};
use bezel_session_types::SubmitOutcome;
use bezel_sessions_contract::LaunchEnvironment;
use serde_json::json;

use super::session::found;
use super::{opened, permit};
use crate::arguments::AnswerArguments;
use crate::failure::{Exit, Failure, Outcome};

/// Shows what a session asks.
pub(super) async fn pending(
    cx: &Context,
    link: &Link,
    environment: LaunchEnvironment,
    id: &str,
    json: bool,
) -> Outcome {
    let session = found(cx, link, id).await?;
    let opened = opened::open(cx, link, environment, &session.session_id).await?;
    let questions: QuestionsClient = opened.services.use_service();
    let questions = opened.shown(cx, questions.pending().ready(cx)).await?;
    let permissions: PermissionsClient = opened.services.use_service();
    let asks = opened.shown(cx, permissions.asks().ready(cx)).await?;
    let (mut out, id) = (io::stdout(), &session.session_id);
    if json {
        let waiting = json!({ "session_id": id, "questions": *questions, "asks": *asks });
        writeln!(out, "{waiting}")?;
        return Ok(Exit::Done);
    }
    if questions.is_empty() && asks.is_empty() {
        writeln!(out, "Nothing is asked")?;
    }
    for question in questions.iter() {
        show(question, &mut out)?;
        writeln!(
            out,
            "  → bezel session answer {id} {} --option N | --text TEXT | --cancel",
            question.id
        )?;
    }
    for ask in asks.iter() {
        permit::show(ask, &mut out)?;
        writeln!(
            out,
            "  → bezel session permit {id} {} --reply {}",
            ask.id,
            permit::replies(ask)
        )?;
    }
    Ok(Exit::Done)
}

/// Answers what a session asks.
pub(super) async fn answer(
    cx: &Context,
    link: &Link,
    environment: LaunchEnvironment,
    arguments: AnswerArguments,
) -> Outcome {
    let session = found(cx, link, &arguments.id).await?;
    let opened = opened::open(cx, link, environment, &session.session_id).await?;
    let service: QuestionsClient = opened.services.use_service();
    let questions = opened.shown(cx, service.pending().ready(cx)).await?;
    if questions.is_empty() {
        let permissions: PermissionsClient = opened.services.use_service();
        let asks = opened.shown(cx, permissions.asks().ready(cx)).await?;
        if let Some(ask) = asks.first() {
            return Err(Failure::usage(anyhow!(
                "the session asks no question, but `{}` waits for permission: `bezel session permit {} --reply once`, \
                 or another reply of {}",
                ask.request.tool,
                session.session_id,
                permit::replies(ask)
            )));
        }
    }
    let question = chosen(&questions, arguments.question.as_deref())?;
    let response = match (arguments.option, arguments.text) {
        (Some(number), _) => QuestionResponse::Selected { index: number - 1 },
        (None, Some(text)) if text.trim().is_empty() => {
            return Err(Failure::usage(anyhow!(
                "the answer is empty: write one, or say --cancel"
            )));
        }
        (None, Some(answer)) => QuestionResponse::Custom { answer },
        (None, None) => QuestionResponse::Cancelled,
    };
    let outcome = service
        .submit_answer(cx, question.id.clone(), response)
        .await;
    let outcome = outcome.map_err(|error| match error {
        CallError::Service(error @ (AnswerError::NoSuchOption { .. } | AnswerError::Invalid { .. })) => {
            Failure::usage(error)
        }
        CallError::Service(error) => Failure::failed(error),
        CallError::Rpc(error) => Failure::failed(anyhow!(
            "it is not known whether the answer arrived: {}; `bezel session pending {}` shows whether it still waits",
            error.message,
            session.session_id
        )),
    })?;
    let mut out = io::stdout();
    if arguments.json {
        writeln!(
            out,
            "{}",
            json!({ "question": question.id, "result": outcome })
        )?;
    }
    match outcome {
        SubmitOutcome::Accepted if arguments.json => Ok(Exit::Done),
        SubmitOutcome::Accepted => {
            writeln!(out, "answered")?;
            Ok(Exit::Done)
        }
        SubmitOutcome::NotPending => Err(Failure::failed(anyhow!(
            "question {} does not wait any more: somebody else answered it, or it was interrupted",
            question.id
        ))),
    }
}

/// The question that is meant.
fn chosen<'questions>(
    questions: &'questions [PendingQuestion],
    part: Option<&str>,
) -> Outcome<&'questions PendingQuestion> {
    let fits = |question: &&PendingQuestion| {
        let id = question.id.as_str();
        part.is_none_or(|part| !part.is_empty() && (id.starts_with(part) || id.ends_with(part)))
    };
    let mut found = questions.iter().filter(fits);
    match (found.next(), found.next(), part) {
        (Some(question), None, _) => Ok(question),
        (None, _, Some(part)) if !questions.is_empty() => Err(Failure::usage(anyhow!(
            "no question {part} waits; `bezel session pending` shows what does"
        ))),
        (None, ..) => Err(Failure::failed(anyhow!(
            "the session asks nothing now: it was answered, or interrupted, or could not go on; `bezel session show` tells \
             which"
        ))),
        (Some(_), Some(_), _) => {
            let ids: Vec<&str> = questions
                .iter()
                .map(|question| question.id.as_str())
                .collect();
            Err(Failure::usage(anyhow!(
                "several questions wait: name one of {}",
                ids.join(", ")
            )))
        }
    }
}

fn show(question: &PendingQuestion, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", question.id)?;
    for line in question.request.question.trim().lines() {
        writeln!(out, "  {}", plain_line(line))?;
    }
    for (place, option) in question.request.options.iter().enumerate() {
        let description = option.description.as_deref().unwrap_or_default();
        let line = format!("{}. {}  {description}", place + 1, option.label);
        writeln!(out, "  {}", plain_line(line.trim_end()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bezel_question_contract::QuestionRequest;
    use bezel_session_types::InvocationId;

    use super::*;

    #[test]
    fn a_question_needs_no_name_where_one_waits_and_a_part_of_one_where_several_do() {
        let question = |id: &str| PendingQuestion {
            id: InvocationId::new(id),
            asker: None,
            request: QuestionRequest {
                question: String::new(),
                options: Vec::new(),
            },
        };
        let [one, two] = ["aa1", "aa2"].map(question);
        let both = [one.clone(), two];
        let id = |found: Outcome<&PendingQuestion>| found.map(|found| found.id.to_string()).ok();
        assert_eq!(id(chosen(&both[..1], None)).as_deref(), Some("aa1"));
        assert_eq!(id(chosen(&both, Some("2"))).as_deref(), Some("aa2"));
        for (questions, part) in [
            (&both[..], None),
            (&both, Some("aa")),
            (&both, Some("x")),
            (&[], None),
        ] {
            assert_eq!(id(chosen(questions, part)), None);
        }
    }
}
