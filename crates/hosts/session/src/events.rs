//! Harness events as facets hear of them.

use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_session::{AgentEvent, EventBody, Outcome};
use bezel_harness::{EventKind, HarnessEvent, HarnessEvents, MessageDelta, Stopped};
use bezel_session_types::{EntryBody, EntryId, LaneName, Message, RunOutcome};
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

/// Passes on what happens in the main lane. One task translates once for all subscribers.
#[derive(Default)]
pub(crate) struct Bus {
    // A plain mutex: held to push into unbounded queues or to add one.
    subscribers: Mutex<Vec<mpsc::UnboundedSender<Arc<AgentEvent>>>>,
}

impl Bus {
    pub(crate) fn subscribe(&self) -> mpsc::UnboundedReceiver<Arc<AgentEvent>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lock().push(sender);
        receiver
    }

    pub(crate) fn publish(&self, body: EventBody) {
        let event = Arc::new(AgentEvent {
            at: Timestamp::now(),
            body,
        });
        self.lock()
            .retain(|subscriber| subscriber.send(Arc::clone(&event)).is_ok());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<mpsc::UnboundedSender<Arc<AgentEvent>>>> {
        self.subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows the harness, and what it commits, until it closes.
pub(crate) async fn pump(
    mut events: HarnessEvents,
    mut committed: watch::Receiver<u64>,
    bus: Arc<Bus>,
) {
    let main = LaneName::main();
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) if *event.lane == main => {
                    translate(event, &mut |body| bus.publish(body));
                }
                Some(_) => {}
                None => return,
            },
            Ok(()) = committed.changed() => {
                let seq = *committed.borrow_and_update();
                bus.publish(EventBody::Journalled { seq });
            }
        }
    }
}

fn translate(event: HarnessEvent, publish: &mut dyn FnMut(EventBody)) {
    match event.kind {
        EventKind::RunStart { operation_id } => publish(EventBody::RunStarted(operation_id)),
        EventKind::RunEnd {
            operation_id,
            outcome,
        } => {
            publish(EventBody::RunEnded(Outcome {
                operation_id,
                outcome,
            }));
        }
        EventKind::MessageStart { entry, model } => {
            publish(EventBody::AnswerStarted { entry, model })
        }
        EventKind::MessageUpdate { entry, delta } => publish(update(entry, delta)),
        EventKind::MessageEnd {
            entry,
            message: None,
            ..
        } => publish(EventBody::AnswerDiscarded { entry }),
        EventKind::MessageEnd {
            entry,
            message: Some(message),
            invocations,
        } => {
            publish(EventBody::AnswerEnded {
                entry,
                message,
                invocations,
            });
        }
        EventKind::ToolStart {
            invocation_id,
            tool,
            arguments,
            ..
        } => {
            publish(EventBody::ToolStarted {
                invocation: invocation_id,
                tool: tool.to_string(),
                arguments,
            });
        }
        EventKind::ToolUpdate {
            invocation_id,
            progress,
        } => {
            publish(EventBody::ToolProgress {
                invocation: invocation_id,
                progress,
            });
        }
        EventKind::ToolEnd {
            invocation_id,
            result,
            ..
        } => {
            publish(EventBody::ToolEnded {
                invocation: invocation_id,
                result,
            });
        }
        EventKind::EntryAdded { entry } => {
            match &entry.body {
                EntryBody::Message { message } => {
                    if let Message::User(message) = &**message {
                        let message = Arc::new(message.clone());
                        publish(EventBody::UserMessage {
                            entry: entry.id.clone(),
                            message,
                        });
                    }
                }
                EntryBody::Compaction(compaction) => publish(EventBody::Compacted {
                    entry: entry.id.clone(),
                    summary: compaction.summary.clone(),
                }),
                EntryBody::Custom(custom) => {
                    if let Some(note) = custom.note() {
                        publish(EventBody::Noted {
                            entry: entry.id.clone(),
                            failed: note.failed,
                            message: note.message.to_owned(),
                        });
                    }
                }
                EntryBody::BranchSummary(_) => {}
            }
            publish(EventBody::Committed { seq: entry.seq });
        }
        EventKind::Usage {
            model, usage, cost, ..
        } => {
            publish(EventBody::UsageRecorded { model, usage, cost });
        }
        EventKind::NavigationEnd {
            tip, error: None, ..
        } => publish(EventBody::Navigated { tip }),
        EventKind::LabelSet { entry, label } => publish(EventBody::LabelSet { entry, label }),
        EventKind::HandlerError {
            registrant,
            hook,
            message,
        } => publish(EventBody::HandlerFailed {
            plugin: registrant.to_string(),
            hook: hook.to_owned(),
            message,
        }),
        EventKind::Fault {
            operation_id: Some(operation_id),
            message,
            refused,
        } => publish(EventBody::RunEnded(stopped(&Stopped {
            operation_id,
            message: message.into(),
            refused,
        }))),
        EventKind::Fault {
            operation_id: None,
            message,
            ..
        } => tracing::error!("{message}"),
        EventKind::Gap => tracing::warn!("session events were lost: a reader was too slow"),
        EventKind::TurnStart { .. }
        | EventKind::TurnEnd { .. }
        | EventKind::QueueUpdate { .. }
        | EventKind::RetryScheduled { .. }
        | EventKind::CompactionStart { .. }
        | EventKind::CompactionEnd { .. }
        | EventKind::NavigationStart { .. }
        | EventKind::NavigationEnd { .. }
        | EventKind::OperationAbort { .. } => {}
    }
}

/// How an operation ends for those who look on where the session could not be written or read, or where it is not to
/// begin: it is still open on the disk.
pub(crate) fn stopped(stopped: &Stopped) -> Outcome {
    let message = &stopped.message;
    let (code, message) = match stopped.refused {
        true => ("session.refused", message.to_string()),
        false => (
            "session.storage",
            format!(
                "{message}. What ran stopped where it stands; send a message to go on from there"
            ),
        ),
    };
    Outcome {
        operation_id: stopped.operation_id.clone(),
        outcome: RunOutcome::Failed {
            code: code.into(),
            message,
        },
    }
}

fn update(entry: EntryId, delta: MessageDelta) -> EventBody {
    match delta {
        MessageDelta::Text { text, .. } => EventBody::Text {
            entry,
            text: text.into(),
        },
        MessageDelta::Thinking { text, .. } => EventBody::Thinking {
            entry,
            text: text.into(),
        },
        MessageDelta::ToolCallStart { index, name, .. } => EventBody::ToolCallStarted {
            entry,
            index,
            tool: name,
        },
        MessageDelta::ToolCallArguments { index, text } => EventBody::ToolCallText {
            entry,
            index,
            text: text.into(),
        },
    }
}
