//! What is left to do, in the status line and on request: an example.

use bezel_api_tui::{
    Command, Facet, FacetError, Message, Namespace, Placement, Slot, TuiContext, TuiFacet, segment,
};
use bezel_example_contract::{TodoList, TodosClient};
use bezel_presentation::StyledLine;
use bezel_presentation::text::Role;

/// The terminal facet of the example.
pub fn facet() -> TuiFacet {
    Facet::new("example", setup).requires::<TodosClient>(Namespace::Session)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    // Taken once and kept: it follows every switch of the session by itself.
    let todos: TodosClient = cx.session.use_service();
    let state = todos.found();
    let shown = move |_: &bezel_api_tui::RenderContext<'_>| {
        (state.is_ready() && !state.is_stale()).then(|| line(&state.get()))?
    };
    cx.slots
        .add(Slot::StatusRight, Placement::order(10), segment(shown));
    let ui = cx.ui.clone();
    cx.own(todos.found().subscribe(move |_, _| ui.redraw()));
    let ui = cx.ui.clone();
    let scan = Command::new("example.scan", "Show what is left to do")
        .description("Scans the project for TODO, FIXME and XXX")
        .slash("todos")
        .run(move |cx, _| {
            let (ui, todos) = (ui.clone(), todos.clone());
            async move {
                // Where this command is given up, the wait ends and the scan goes on.
                let scan = todos.scan(&cx, None).await?;
                scan.wait(&cx).await?;
                let found = todos.found().get();
                ui.message(&cx, Message::new("Left to do", report(&found)))
                    .await;
                Ok(())
            }
        });
    cx.commands.add(scan);
    Ok(())
}

fn line(list: &TodoList) -> Option<StyledLine> {
    let text = match list.todos.len() {
        0 => return None,
        1 => "1 todo".to_owned(),
        count => format!("{count} todos"),
    };
    Some(StyledLine::new(text, Role::Muted))
}

fn report(list: &TodoList) -> String {
    if list.todos.is_empty() {
        return format!("Nothing in {} files.", list.files);
    }
    let todos = list.todos.iter().map(|todo| {
        let place = &todo.place;
        format!(
            "- `{}:{}` {} {}\n",
            place.path, place.line, todo.word, todo.text
        )
    });
    todos.collect()
}

/// A first plugin, for whoever writes one: every snippet of it is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/plugins.md")]
pub struct FirstPlugin;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bezel_api_tui::Binding;
    use bezel_context::TaskScope;
    use bezel_example_session::{TodoService, project_tree};
    use bezel_host_tui::{HarnessOptions, TuiHarness};
    use bezel_testkit::FakeServer;

    use super::*;

    #[tokio::test]
    async fn the_command_scans_and_shows_what_it_found_and_the_status_line_counts_it() {
        let project = tempfile::tempdir().unwrap();
        std::fs::write(
            project.path().join("a.rs"),
            "// TODO: water the plants\n// FIXME\n",
        )
        .unwrap();
        let (server, scope) = (FakeServer::new(), TaskScope::new());
        let extra = Facet::new("extra", |cx: TuiContext| async move {
            let (attachment, ui) = (cx.session.attachment(), cx.ui.clone());
            cx.own(attachment.subscribe(move |_, _| ui.redraw()));
            let shown = move |_: &bezel_api_tui::RenderContext<'_>| {
                let attached = attachment.get().is_attached();
                attached.then(|| StyledLine::new("[attached]", Role::Status))
            };
            cx.slots
                .add(Slot::StatusLeft, Placement::default(), segment(shown));
            cx.keybindings.add(Binding::new("f2", "example.scan")?);
            Ok(())
        });
        let options = HarnessOptions {
            facets: vec![facet(), extra],
            connect: Some(server.connect()),
            ..HarnessOptions::default()
        };
        let tui = TuiHarness::start(options).await.unwrap();
        let worker = server.worker("one");
        let tree = Arc::new(project_tree(project.path()));
        let service = TodosClient::new(TodoService::new(tree, scope.spawner()));
        worker.provide(&service).unwrap();
        worker.activate();
        server.attach("one").await.unwrap();
        tui.wait_for_text("[attached]").await;
        tui.press("f2").await;
        let screen = tui.wait_for_text("water the plants").await;
        assert!(
            screen.contains("a.rs:1") && screen.contains("a.rs:2"),
            "{}",
            screen.text()
        );
        tui.press("esc").await;
        tui.wait_for(|screen| screen.contains("2 todos") && !screen.contains("water"))
            .await;
        tui.stop().await;
    }

    #[test]
    fn a_project_without_todos_shows_nothing_in_the_status_line() {
        let list = TodoList {
            todos: Vec::new(),
            files: 7,
        };
        assert!(line(&list).is_none());
        assert_eq!(report(&list), "Nothing in 7 files.");
    }
}
