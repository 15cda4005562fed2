//! Writes events: as JSON lines, as the answer's text with the tools' activity beside it, or to a program.

use std::io::{self, Write};

use serde_json::Value;

use crate::events::{QuestionChoice, RunEvent, RunLine, ToolEndStatus, VERSION};
use crate::steering::{is_steering, plain_line};

/// Where a run's events go.
pub enum Printer<'a> {
    /// One JSON object a line.
    Json {
        /// The lines.
        out: &'a mut (dyn Write + Send + Sync),
    },
    /// Text for a person.
    Text(TextPrinter<'a>),
    /// Each event as it is, to a program. An error says that nobody takes them any more.
    Each(&'a mut (dyn FnMut(RunEvent) -> io::Result<()> + Send + Sync)),
}

/// Which of the two streams a person looks at directly.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terminals {
    /// The answer's stream is a terminal: control characters of the model are left out of it.
    pub answer: bool,
    /// The activity's stream is a terminal that takes colours: activity is dimmed.
    pub activity: bool,
}

/// The answer's text on one stream, what the agent does on the other.
pub struct TextPrinter<'a> {
    out: &'a mut (dyn Write + Send + Sync),
    activity: &'a mut (dyn Write + Send + Sync),
    terminals: Terminals,
    /// Item and part that are being written.
    block: Option<(String, usize)>,
    /// Whether the answer's stream stands at the beginning of a line.
    at_line_start: bool,
    /// Whether the answer's stream has anything.
    written: bool,
    /// What an answer broke off with, until it is clear whether the run ended with it.
    broke_off: Option<String>,
}

impl<'a> Printer<'a> {
    /// Writes JSON lines.
    pub fn json(out: &'a mut (dyn Write + Send + Sync)) -> Self {
        Printer::Json { out }
    }

    /// Writes the answer to `out` and what the agent does to `activity`.
    pub fn text(
        out: &'a mut (dyn Write + Send + Sync),
        activity: &'a mut (dyn Write + Send + Sync),
        terminals: Terminals,
    ) -> Self {
        Printer::Text(TextPrinter {
            out,
            activity,
            terminals,
            block: None,
            at_line_start: true,
            written: false,
            broke_off: None,
        })
    }

    /// Tells a person something that is no event of the run.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        match self {
            Printer::Json { .. } | Printer::Each(_) => Ok(()),
            Printer::Text(printer) => printer.act(&format!("· {text}")),
        }
    }

    /// Writes one event.
    pub(crate) fn print(&mut self, event: RunEvent) -> io::Result<()> {
        match self {
            Printer::Json { out } => {
                serde_json::to_writer(&mut **out, &RunLine { v: VERSION, event })?;
                out.write_all(b"\n")?;
                out.flush()
            }
            Printer::Text(text) => text.print(event),
            Printer::Each(take) => take(event),
        }
    }
}

impl TextPrinter<'_> {
    fn print(&mut self, event: RunEvent) -> io::Result<()> {
        match event {
            RunEvent::TextDelta {
                item,
                part,
                text,
                restarted,
            } => self.answer((item, part), &text, restarted),
            RunEvent::ToolStart {
                tool, arguments, ..
            } => self.act(format!("· {tool}  {}", summary(&arguments)).trim_end()),
            RunEvent::ToolEnd {
                tool,
                status: ToolEndStatus::Failed,
                output,
                ..
            } => self.act(&format!("  {tool} failed: {}", gist(&output))),
            RunEvent::ToolEnd {
                tool,
                status: ToolEndStatus::Interrupted,
                ..
            } => self.act(&format!("  {tool} was interrupted")),
            RunEvent::Question {
                session_id,
                question,
                options,
                ..
            } => self.ask(session_id.as_str(), &question, &options),
            RunEvent::Permission {
                session_id,
                tool,
                asked,
                declined,
                ..
            } => {
                for asked in asked {
                    let (action, resource) = (asked.action, first_line(&asked.resource).to_owned());
                    self.act(&format!(
                        "? {tool}: {action} `{resource}`: {}",
                        asked.reason
                    ))?;
                }
                match declined {
                    true => self.act("  declined: nobody else can reach this run"),
                    false => self.act(&format!(
                        "  it waits. Reply from another shell: bezel session permit {session_id} --reply once (or session, always, reject)"
                    )),
                }
            }
            RunEvent::Retry {
                attempt, reason, ..
            } => self.act(&format!("· trying again ({attempt}): {reason}")),
            RunEvent::Compaction { .. } => self.act("· summarised the conversation so far"),
            RunEvent::Message { text, .. } => {
                self.act(&format!("· message: {}", first_line(&text)))
            }
            RunEvent::Warning {
                message,
                of_answer: true,
            } => {
                self.end_block()?;
                self.pass_over()?;
                self.broke_off = Some(message);
                Ok(())
            }
            RunEvent::Warning { message, .. } => {
                // The answer may go on: a lost connection that came back is no part of it.
                if self.terminals.answer {
                    self.end_line()?;
                }
                self.pass_over()?;
                writeln!(self.activity, "warning: {message}")
            }
            RunEvent::End { error, .. } => {
                self.end_block()?;
                let Some(error) = error else {
                    return self.pass_over();
                };
                self.broke_off.take_if(|message| *message == error);
                self.pass_over()?;
                writeln!(self.activity, "error: {error}")
            }
            RunEvent::Session { .. }
            | RunEvent::Prompt { .. }
            | RunEvent::Text { .. }
            | RunEvent::Thinking { .. }
            | RunEvent::ToolEnd {
                status: ToolEndStatus::Done,
                ..
            }
            | RunEvent::Usage { .. } => Ok(()),
        }
    }

    /// Says what an answer broke off with, now that the run went on.
    fn pass_over(&mut self) -> io::Result<()> {
        match self.broke_off.take() {
            Some(message) => writeln!(self.activity, "warning: {message}"),
            None => Ok(()),
        }
    }

    fn answer(&mut self, block: (String, usize), text: &str, restarted: bool) -> io::Result<()> {
        if self.block.as_ref() != Some(&block) || restarted {
            self.end_block()?;
            self.pass_over()?;
            if self.written {
                self.out.write_all(b"\n")?;
            }
            self.block = Some(block);
        }
        if self.terminals.answer && text.contains(is_steering) {
            self.out
                .write_all(text.replace(is_steering, "").as_bytes())?;
        } else {
            self.out.write_all(text.as_bytes())?;
        }
        self.out.flush()?;
        if !text.is_empty() {
            self.at_line_start = text.ends_with('\n');
            self.written = true;
        }
        Ok(())
    }

    /// What is asked, and how it is answered: nobody can answer here.
    fn ask(&mut self, session: &str, question: &str, options: &[QuestionChoice]) -> io::Result<()> {
        self.end_block()?;
        self.pass_over()?;
        for (place, line) in question.trim().lines().enumerate() {
            let mark = if place == 0 { "? " } else { "  " };
            writeln!(self.activity, "{mark}{}", plain_line(line))?;
        }
        for (place, option) in options.iter().enumerate() {
            let description = option.description.as_deref().unwrap_or_default();
            let line = format!("{}. {}  {description}", place + 1, option.label);
            writeln!(self.activity, "  {}", plain_line(line.trim_end()))?;
        }
        writeln!(
            self.activity,
            "  It waits. Answer from another shell: bezel session answer {session} --option N (or --text TEXT, --cancel)"
        )?;
        self.activity.flush()
    }

    fn act(&mut self, line: &str) -> io::Result<()> {
        self.end_block()?;
        self.pass_over()?;
        let (on, off) = if self.terminals.activity {
            ("\x1b[2m", "\x1b[0m")
        } else {
            ("", "")
        };
        writeln!(self.activity, "{on}{}{off}", plain_line(line))
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.block = None;
        self.end_line()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if !self.at_line_start {
            self.at_line_start = true;
            self.out.write_all(b"\n")?;
            self.out.flush()?;
        }
        Ok(())
    }
}

/// What a call is about, in a few words: the argument that says most.
fn summary(arguments: &Value) -> String {
    const TELLING: &[&str] = &[
        "command",
        "path",
        "file_path",
        "pattern",
        "query",
        "url",
        "name",
    ];
    let Some(members) = arguments.as_object() else {
        return String::new();
    };
    if let Some(steps) = members.get("items").and_then(Value::as_array) {
        return first_line(&progress(steps));
    }
    let telling = TELLING.iter().find_map(|name| members.get(*name)?.as_str());
    first_line(
        telling
            .or_else(|| members.values().find_map(Value::as_str))
            .unwrap_or_default(),
    )
}

/// How far a list of steps has come, and which one is under way.
fn progress(steps: &[Value]) -> String {
    let with = |status: &'static str| steps.iter().filter(move |step| step["status"] == status);
    let done = format!("{} of {} done", with("completed").count(), steps.len());
    match with("in_progress").find_map(|step| step["content"].as_str()) {
        Some(step) => format!("{done}; now: {step}"),
        None => done,
    }
}

/// What a failed tool says, in a line: its first words and its last ones, where the reason stands.
fn gist(output: &str) -> String {
    let first = first_line(output);
    let last = output.trim_end().lines().next_back().unwrap_or_default();
    match first_line(last) {
        last if first.ends_with(&last) => first,
        last if first.ends_with(':') => format!("{first} {last}"),
        last => format!("{first} … {last}"),
    }
}

fn first_line(text: &str) -> String {
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim();
    match line.char_indices().nth(160) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::events::EndStatus;

    fn printed(events: Vec<RunEvent>, out: Expect, activity: Expect) {
        printed_to(true, events, out, activity);
    }

    fn printed_to(terminal: bool, events: Vec<RunEvent>, out: Expect, activity: Expect) {
        let (mut text, mut beside) = (Vec::new(), Vec::new());
        let mut printer = Printer::text(
            &mut text,
            &mut beside,
            Terminals {
                answer: terminal,
                activity: false,
            },
        );
        for event in events {
            printer.print(event).unwrap();
        }
        out.assert_eq(&String::from_utf8(text).unwrap());
        activity.assert_eq(&String::from_utf8(beside).unwrap());
    }

    fn delta(item: &str, text: &str) -> RunEvent {
        RunEvent::TextDelta {
            item: item.into(),
            part: 0,
            text: text.into(),
            restarted: false,
        }
    }

    fn end(status: EndStatus, error: Option<&str>) -> RunEvent {
        RunEvent::End {
            status,
            exit_status: status.exit_status(),
            text: None,
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn the_answer_goes_to_one_stream_and_activity_to_the_other() {
        let start = RunEvent::ToolStart {
            item: "t".into(),
            tool: "bash".into(),
            arguments: serde_json::json!({ "note": "x", "command": "ls -l\nrm x" }),
        };
        let failed = RunEvent::ToolEnd {
            item: "t".into(),
            tool: "bash".into(),
            status: ToolEndStatus::Failed,
            output: "\n\u{1b}[31mno such file\nmore".into(),
            clipped: false,
            details: Default::default(),
            structured: None,
        };
        printed(
            vec![
                delta("a", "Let me "),
                delta("a", "look."),
                start,
                failed,
                delta("b", "Do\u{1b}ne.\n"),
                end(EndStatus::Done, None),
            ],
            expect![[r#"
                Let me look.

                Done.
            "#]],
            expect![[r#"
                · bash  ls -l
                  bash failed:  [31mno such file … more
            "#]],
        );
    }

    fn broke_off(message: &str) -> RunEvent {
        RunEvent::Warning {
            message: message.into(),
            of_answer: true,
        }
    }

    #[test]
    fn what_ended_the_run_is_said_once_and_is_an_error() {
        printed(
            vec![
                broke_off("the key is wrong"),
                end(EndStatus::NoModel, Some("the key is wrong")),
            ],
            expect![[r#""#]],
            expect![[r#"
                error: the key is wrong
            "#]],
        );
        printed(
            vec![
                delta("a", "half"),
                end(EndStatus::Failed, Some("the stream was cut")),
            ],
            expect![[r#"
                half
            "#]],
            expect![[r#"
                error: the stream was cut
            "#]],
        );
    }

    #[test]
    fn what_did_not_end_the_run_is_a_warning_before_what_came_then() {
        printed(
            vec![
                broke_off("the stream was cut"),
                delta("a", "more"),
                end(EndStatus::Done, None),
            ],
            expect![[r#"
                more
            "#]],
            expect![[r#"
                warning: the stream was cut
            "#]],
        );
        printed(
            vec![
                broke_off("the stream was cut"),
                end(EndStatus::Failed, Some("the server is lost")),
            ],
            expect![[r#""#]],
            expect![[r#"
                warning: the stream was cut
                error: the server is lost
            "#]],
        );
    }

    #[test]
    fn a_warning_that_is_not_of_the_answer_leaves_it_in_one_piece() {
        let events = || {
            let lost = RunEvent::Warning {
                message: "the connection was lost".into(),
                of_answer: false,
            };
            let (half, rest) = (delta("a", "half and "), delta("a", "half"));
            vec![half, lost, rest, end(EndStatus::Done, None)]
        };
        let warned = || {
            expect![[r#"
                warning: the connection was lost
            "#]]
        };
        printed_to(
            false,
            events(),
            expect![[r#"
                half and half
            "#]],
            warned(),
        );
        // Where both are on one screen, the warning has a line of its own.
        printed_to(true, events(), expect!["half and \nhalf\n"], warned());
    }

    #[test]
    fn a_list_of_steps_says_how_far_it_has_come() {
        let steps = serde_json::json!({ "items": [
            { "content": "look", "status": "completed" },
            { "content": "change it", "status": "in_progress" },
            { "content": "test it", "status": "pending" },
        ] });
        assert_eq!(summary(&steps), "1 of 3 done; now: change it");
        let all = serde_json::json!({ "items": [{ "content": "look", "status": "completed" }] });
        assert_eq!(summary(&all), "1 of 1 done");
    }

    #[test]
    fn a_failed_tool_is_told_with_its_reason_wherever_that_stands() {
        assert_eq!(gist("no such file\n"), "no such file");
        assert_eq!(gist(""), "");
        assert_eq!(
            gist("y\ny\n\nit wrote more than 2.0 GiB and was ended"),
            "y … it wrote more than 2.0 GiB and was ended"
        );
        assert_eq!(
            gist("the arguments do not match:\n- path: missing"),
            "the arguments do not match: - path: missing"
        );
    }
}
