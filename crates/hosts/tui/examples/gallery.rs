//! A presentation without a server that shows what the terminal host offers: `cargo run -p bezel-host-tui --example gallery`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bezel_api_tui::ratatui::buffer::Buffer;
use bezel_api_tui::ratatui::layout::{Position, Rect};
use bezel_api_tui::{
    Binding, Command, Confirm, EventContext, Facet, FacetError, Handled, Input, InputEvent,
    KeyCode, KeyStroke, Message, MouseEventKind, Placement, RenderContext, Select, SelectItem,
    Slot, ThemeChoice, Toast, TuiContext, View, segment,
};
use bezel_context::Context;
use bezel_host_tui::{TerminalOptions, TuiHost, TuiOptions, install_panic_hook};
use bezel_plugin::{Deadlines, Manifest, ManifestEntry};
use bezel_presentation::diff;
use bezel_presentation::markdown::MarkdownText;
use bezel_presentation::text::{Role, TextStyle};
use bezel_presentation::{StyledLine, StyledSpan};
use bezel_rpc::{Connect, ConnectError, Credential, Hello, Role as PeerRole, Transport};
use futures::FutureExt;
use futures::future::BoxFuture;

const TEXT: &str = include_str!("gallery.md");

struct Main {
    text: MarkdownText,
    scroll: usize,
    total: usize,
    hunks: Vec<diff::DiffHunk>,
    syntax: Option<diff::DiffSyntax>,
}

impl View for Main {
    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let inner = Rect {
            x: area.x + 2,
            width: area.width.saturating_sub(4),
            ..area
        };
        let width = usize::from(inner.width.min(100));
        let mut lines = self.text.lines(width, cx.highlighter()).to_vec();
        lines.push(StyledLine::default());
        let syntax = self
            .syntax
            .get_or_insert_with(|| diff::DiffSyntax::new(&self.hunks, "main.rs", cx.highlighter()));
        lines.extend(diff::lay_out(&self.hunks, Some(syntax), width));
        self.total = lines.len();
        self.scroll = self
            .scroll
            .min(lines.len().saturating_sub(usize::from(area.height)));
        cx.paint().draw_lines(buffer, inner, &lines[self.scroll..]);
    }

    fn handle(&mut self, event: &InputEvent, cx: &mut EventContext) -> Handled {
        let page = usize::from(cx.area().height);
        let by = |scroll: usize, up: bool, rows: usize| {
            if up {
                scroll.saturating_sub(rows)
            } else {
                scroll + rows
            }
        };
        match event {
            InputEvent::Mouse(mouse) if mouse.kind == MouseEventKind::ScrollUp => {
                self.scroll = by(self.scroll, true, 3)
            }
            InputEvent::Mouse(mouse) if mouse.kind == MouseEventKind::ScrollDown => {
                self.scroll = by(self.scroll, false, 3)
            }
            InputEvent::Key(key) if key.code == KeyCode::PageUp => {
                self.scroll = by(self.scroll, true, page)
            }
            InputEvent::Key(key) if key.code == KeyCode::PageDown => {
                self.scroll = by(self.scroll, false, page)
            }
            _ => return Handled::No,
        }
        Handled::Yes
    }
}

struct Composer {
    text: String,
}

impl View for Composer {
    fn height(&mut self, _width: u16, _cx: &RenderContext<'_>) -> u16 {
        3
    }

    fn render(&mut self, area: Rect, buffer: &mut Buffer, cx: &RenderContext<'_>) {
        let line = StyledLine::new(
            "─".repeat(usize::from(area.width)),
            if cx.is_focused() {
                Role::BorderFocused
            } else {
                Role::Border
            },
        );
        cx.paint().draw_line(buffer, area, &line);
        let row = Rect {
            y: area.y + 1,
            height: 1,
            ..area
        };
        let mut text = StyledLine::new(" ❯ ", Role::Accent);
        if self.text.is_empty() {
            text.push(StyledSpan::new("Ask for a change", Role::Placeholder));
        } else {
            text.push(StyledSpan::new(self.text.clone(), Role::Text));
        }
        cx.paint().draw_line(buffer, row, &text);
        let below = Rect {
            y: area.y + 2,
            height: 1,
            ..area
        };
        cx.paint().draw_line(buffer, below, &line);
        let x = 3 + u16::try_from(bezel_presentation::text::width(&self.text)).unwrap_or(0);
        cx.place_cursor(Position::new(area.x + x, row.y));
    }

    fn handle(&mut self, event: &InputEvent, _cx: &mut EventContext) -> Handled {
        match event {
            InputEvent::Key(key) => match (KeyStroke::from(key).typed(), key.code) {
                (Some(letter), _) => self.text.push(letter),
                (_, KeyCode::Backspace) => drop(self.text.pop()),
                (_, KeyCode::Esc) if !self.text.is_empty() => self.text.clear(),
                _ => return Handled::No,
            },
            InputEvent::Paste(text) => self.text.push_str(text),
            _ => return Handled::No,
        }
        Handled::Yes
    }
}

fn facet() -> Facet<TuiContext> {
    Facet::new("gallery", |cx: TuiContext| async move { set_up(&cx) })
}

fn set_up(cx: &TuiContext) -> Result<(), FacetError> {
    let old = "fn main() {\n    let total = price + tax;\n    println!(\"{total}\");\n}\n";
    let new =
        "fn main() {\n    let total = price + fee;\n    println!(\"{total}\");\n    done();\n}\n";
    let main = Main {
        text: MarkdownText::from(TEXT),
        scroll: 0,
        total: 0,
        hunks: diff::between(old, new, 3),
        syntax: None,
    };
    cx.slots.add(Slot::Main, Placement::default(), main);
    cx.slots.add(
        Slot::Composer,
        Placement::default(),
        Composer {
            text: String::new(),
        },
    );
    let busy = Arc::new(AtomicBool::new(false));
    let shown = Arc::clone(&busy);
    cx.slots.add(
        Slot::AboveComposer,
        Placement::default(),
        segment(move |cx| {
            if !shown.load(Ordering::Relaxed) {
                return None;
            }
            let mut line = StyledLine::new(format!(" {} ", cx.spinner()), Role::Accent);
            line.push(StyledSpan::new("Working", Role::Text));
            line.push(StyledSpan::new(" · 12s · esc to interrupt", Role::Faint));
            Some(line)
        }),
    );
    cx.slots.add(
        Slot::StatusLeft,
        Placement::order(0).importance(5),
        segment(|_| {
            Some(StyledLine::new(
                "local::qwen3-coder",
                TextStyle::role(Role::Status),
            ))
        }),
    );
    cx.slots.add(
        Slot::StatusLeft,
        Placement::order(1),
        segment(|_| Some(StyledLine::new("12% of 262k", Role::Status))),
    );
    cx.slots.add(
        Slot::StatusRight,
        Placement::order(0),
        segment(|_| Some(StyledLine::new("f1 help", Role::Faint))),
    );
    cx.slots.add(
        Slot::StatusRight,
        Placement::order(1).importance(9),
        segment(|_| Some(StyledLine::new("● connected", Role::Success))),
    );

    let ui = cx.ui.clone();
    cx.commands.add(Command::new("gallery.models", "Select model").slash("model").run(move |cx, _| {
        let ui = ui.clone();
        async move {
            let item = |provider: &'static str, name: &str, context: &str| {
                let preview = format!("# {name}\n\nBy **{provider}**.\n\n- context `{context}`\n- reasoning\n\n```rust\nfn main() {{}}\n```\n");
                SelectItem::new(name, name.to_owned()).detail(context).group(provider).preview(preview)
            };
            let select = Select::new("Model")
                .items([item("Anthropic", "claude-opus-5", "1M"), item("Anthropic", "claude-sonnet-5", "1M")])
                .items([item("OpenAI", "gpt-6", "400k"), item("OpenAI", "gpt-6-mini", "400k"), item("Local", "qwen3-coder", "262k").current(true)])
                .action("ctrl+r", "refresh")?;
            if let Some(selected) = ui.select(&cx, select).await {
                ui.toast(Toast::success(format!("Model is {}", selected.value)));
            }
            Ok(())
        }
    }));
    let ui = cx.ui.clone();
    cx.commands.add(Command::new("gallery.delete", "Delete session").slash("delete").run(move |cx, _| {
        let ui = ui.clone();
        async move {
            let confirm = Confirm::new("Delete session", "**Fix the parser** and its 42 messages will be gone. Files stay as they are.");
            if ui.confirm(&cx, confirm.labels("Delete", "Keep").danger()).await {
                ui.toast(Toast::error("Could not delete the session: the server cannot be reached. Start it with `bezel serve`."));
            }
            Ok(())
        }
    }));
    let ui = cx.ui.clone();
    cx.commands.add(
        Command::new("gallery.rename", "Rename session")
            .slash("rename")
            .argument_hint("[title]")
            .run(move |cx, _| {
                let ui = ui.clone();
                async move {
                    let check = |text: &str| {
                        text.trim()
                            .is_empty()
                            .then(|| "A session needs a title.".to_owned())
                    };
                    if let Some(name) = ui
                        .input(
                            &cx,
                            Input::new("Rename session")
                                .prompt("What is it about?")
                                .placeholder("title")
                                .check(check),
                        )
                        .await
                    {
                        ui.toast(Toast::info(format!("Renamed to {name}")));
                    }
                    Ok(())
                }
            }),
    );
    let ui = cx.ui.clone();
    cx.commands
        .add(Command::new("gallery.about", "About").run(move |cx, _| {
            let ui = ui.clone();
            async move {
                ui.message(&cx, Message::new("About", TEXT)).await;
                Ok(())
            }
        }));
    let ui = cx.ui.clone();
    cx.commands.add(
        Command::new("gallery.work", "Work for a while").run(move |_, _| {
            busy.fetch_xor(true, Ordering::Relaxed);
            ui.redraw();
            async { Ok(()) }
        }),
    );
    let themes = cx.themes.clone();
    cx.commands.add(
        Command::new("gallery.theme", "Light theme").run(move |_, _| {
            themes.select(ThemeChoice::Light);
            async { Ok(()) }
        }),
    );
    let ui = cx.ui.clone();
    cx.commands.add(
        Command::new("gallery.edit", "Edit in $EDITOR").run(move |cx, _| {
            let ui = ui.clone();
            async move {
                let text = ui.edit(&cx, "text\n".into(), "md").await?;
                ui.toast(format!("Edited: {text}"));
                Ok(())
            }
        }),
    );
    for (chord, command) in [
        ("ctrl+x m", "gallery.models"),
        ("ctrl+x d", "gallery.delete"),
        ("ctrl+x r", "gallery.rename"),
        ("ctrl+x w", "gallery.work"),
        ("ctrl+x t", "gallery.theme"),
        ("ctrl+x a", "gallery.about"),
        ("ctrl+x e", "gallery.edit"),
    ] {
        cx.keybindings.add(Binding::new(chord, command)?);
    }
    cx.help.add(
        "Transcript",
        &[
            ("pageup, pagedown", "Scroll by a page"),
            ("up, down", "Scroll by a line"),
        ],
    )?;
    cx.help.add(
        "Composer",
        &[
            ("enter", "Send"),
            ("shift+enter, ctrl+j", "New line"),
            ("esc", "Clear, or interrupt what runs"),
        ],
    )?;
    Ok(())
}

struct Nowhere;

impl Connect for Nowhere {
    fn connect<'c>(&'c self, _cx: &'c Context) -> BoxFuture<'c, Result<Transport, ConnectError>> {
        std::future::pending().boxed()
    }
}

fn main() -> std::process::ExitCode {
    install_panic_hook();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    let result = runtime.block_on(async {
        let running = TuiHost::start(TuiOptions {
            manifest: Manifest {
                plugins: vec![ManifestEntry::required("gallery", "0.0.0")],
            },
            facets: vec![facet()],
            connect: Arc::new(Nowhere),
            hello: Hello {
                role: PeerRole::Presentation,
                product_version: "0.0.0".into(),
                credential: Credential::none(),
            },
            terminal: TerminalOptions::from_variables(|name| std::env::var(name).ok()),
            launch: Default::default(),
            deadlines: Deadlines::default(),
        });
        Ok::<_, bezel_host_tui::StartError>(running.await?.finished().await)
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
    match result {
        Ok(exit) => {
            println!("{}", exit.quit.message);
            exit.quit.code.into()
        }
        Err(error) => {
            eprintln!("{error}");
            2.into()
        }
    }
}
