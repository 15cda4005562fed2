//! Creating, listing, renaming, removing; attaching, switching, detaching; calls to the worker.

use std::path::Path;

use bezel_rpc::{AttachmentState, CallError, Delivery, ErrorCode};
use bezel_session_types::{ModelRef, SessionId, ThinkingLevel};
use bezel_sessions_contract::{
    CreateSession, DirectoryEvent, PermissionMode, SessionError, SessionStatus,
};

use crate::launcher::Behaviour;
use crate::over_both;
use crate::world::{Via, World, begin_in, cx, refused};

over_both! {
    async fn a_created_session_is_listed_with_its_workspace_and_becomes_idle(world: World) {
        let client = world.client().await;
        let project = world.project("my-project");
        let created = client.create(&project).await;
        assert_eq!((created.title.as_str(), created.workspace_name.as_str()), ("", "my-project"));
        client.until_status(&created.session_id, SessionStatus::Idle).await;
        let other = world.client().await;
        assert_eq!(other.list().await.len(), 1);
        let start = &world.launcher.starts()[0];
        assert_eq!(start.directory, project.canonicalize().unwrap());
        assert!(start.database.parent().unwrap().is_dir());
    }

    async fn what_a_session_begins_with_reaches_its_worker(world: World) {
        let client = world.client().await;
        let options = CreateSession {
            title: Some("Fix the parser".into()),
            model: Some("local::small".parse().unwrap()),
            permission_mode: PermissionMode::Plan,
            ..begin_in(&world.project("p"))
        };
        let created = client.management.create(&cx(), options).await.unwrap();
        assert_eq!(created.model.unwrap().model_id, "small");
        let start = &world.launcher.starts()[0];
        assert_eq!(start.title, "Fix the parser");
        assert_eq!(start.permission_mode, bezel_session_types::PermissionMode::Plan);
        assert_eq!(start.model.as_ref().unwrap().to_string(), "local::small");
    }

    async fn a_session_that_is_created_twice_under_its_id_is_created_once(world: World) {
        let client = world.client().await;
        let id = SessionId::generate();
        let options = CreateSession {
            session_id: Some(id.clone()),
            ..begin_in(&world.project("p"))
        };
        let cx = cx();
        let (first, second) = tokio::join!(
            client.management.create(&cx, options.clone()),
            client.management.create(&cx, options.clone()),
        );
        let third = client.management.create(&cx, options).await;
        for created in [first, second, third] {
            assert_eq!(created.unwrap().session_id, id);
        }
        client.until_status(&id, SessionStatus::Idle).await;
        assert_eq!(client.list().await.len(), 1);
        assert_eq!(world.launcher.starts().len(), 1);
        for wrong in ["", "../x", "ABCDEF00112273344556677889900aab", "s"] {
            let options = CreateSession {
                session_id: Some(SessionId::new(wrong)),
                ..begin_in(&world.project("p"))
            };
            let refusal = refused(client.management.create(&cx, options).await);
            assert!(matches!(refusal, SessionError::Invalid { .. }), "{wrong}: {refusal:?}");
        }
    }

    async fn a_launch_that_fails_takes_back_the_session_of_who_began_it_and_of_nobody_else(world: World) {
        let client = world.client().await;
        let id = SessionId::generate();
        let options = CreateSession {
            session_id: Some(id.clone()),
            ..begin_in(&world.project("p"))
        };
        world.launcher.plan([Behaviour::CannotLaunch]);
        let cx = cx();
        let (first, second) = tokio::join!(
            client.management.create(&cx, options.clone()),
            client.management.create(&cx, options),
        );
        let (told, refused): (Vec<_>, Vec<_>) = [first, second].into_iter().partition(Result::is_ok);
        assert_eq!((told.len(), refused.len()), (1, 1), "{told:?} {refused:?}");
        // Who was told of it has it.
        client.until_status(&id, SessionStatus::Idle).await;
    }

    async fn a_child_is_like_its_parent_where_nobody_says_otherwise_and_goes_with_it(world: World) {
        let (via, client) = (world.via, world.client().await);
        let options = CreateSession {
            agent: Some("build".into()),
            model: Some("local::small".parse().unwrap()),
            ..begin_in(&world.project("p"))
        };
        let parent = client.management.create(&cx(), options).await.unwrap().session_id;
        let child = CreateSession { parent_id: Some(parent.clone()), ..CreateSession::default() };
        let child = client.management.create(&cx(), child).await.unwrap();
        assert_eq!(child.parent_id.as_ref(), Some(&parent));
        assert_eq!((child.agent.as_deref(), child.workspace_name.as_str()), (Some("build"), "p"));
        assert_eq!(child.model.unwrap().model_id, "small");
        let other = CreateSession {
            parent_id: Some(child.session_id.clone()),
            agent: Some("explore".into()),
            ..begin_in(&world.project("p"))
        };
        let other = client.management.create(&cx(), other).await.unwrap();
        assert_eq!(other.agent.as_deref(), Some("explore"));
        client.link.stop().await;
        let (scratch, launcher) = world.stop().await;
        let world = World::again(scratch, launcher, via, |_| ()).await.unwrap();
        let client = world.client().await;
        let parents: Vec<_> = client.list().await.into_iter().filter_map(|session| session.parent_id).collect();
        assert!(parents.contains(&parent) && parents.contains(&child.session_id), "{parents:?}");
        client.management.remove(&cx(), parent.clone()).await.unwrap();
        assert_eq!(client.list().await, []);
        let orphan = CreateSession { parent_id: Some(parent.clone()), ..begin_in(&world.project("p")) };
        let refusal = refused(client.management.create(&cx(), orphan).await);
        assert_eq!(refusal, SessionError::NotAuthorized { session_id: parent });
    }

    async fn events_tell_of_creation_change_and_deletion(world: World) {
        let client = world.client().await;
        client.list().await;
        let mut events = client.directory.events().subscribe();
        let created = client.create(&world.project("p")).await.session_id;
        client.until_status(&created, SessionStatus::Idle).await;
        client.management.rename(&cx(), created.clone(), "New".into()).await.unwrap();
        client.management.remove(&cx(), created.clone()).await.unwrap();
        let mut seen = Vec::new();
        loop {
            let delivery = cx().run(events.next()).await.unwrap();
            let Some(Delivery::Event { value, .. }) = delivery else { panic!("{delivery:?}") };
            match &*value {
                DirectoryEvent::Created { session } => seen.push(format!("created {}", session.title)),
                DirectoryEvent::Changed { session } => seen.push(format!("changed {}", session.title)),
                DirectoryEvent::Deleted { session_id } => {
                    assert_eq!(*session_id, created);
                    break;
                }
            }
        }
        assert_eq!(seen[0], "created ");
        assert!(seen.contains(&"changed New".to_owned()), "{seen:?}");
    }

    async fn a_renamed_session_has_its_new_title_everywhere_and_bad_titles_are_refused(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        let renamed = client.management.rename(&cx(), id.clone(), "  Better ".into()).await.unwrap();
        assert_eq!(renamed.title, "Better");
        client.until(|directory| directory.sessions[0].title == "Better").await;
        let refusal = refused(client.management.rename(&cx(), id, "two\nlines".into()).await);
        assert!(refusal.to_string().contains("one line of text"), "{refusal}");
    }

    async fn a_removed_session_is_gone_with_its_worker_its_files_and_its_attachments(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        client.attach(&id).await;
        let folder = world.scratch.path().join("sessions").join(id.as_str());
        assert!(folder.is_dir());
        let worker = world.launcher.worker(&id);
        client.management.remove(&cx(), id.clone()).await.unwrap();
        assert!(worker.has_ended());
        assert!(client.list().await.is_empty());
        client.until_attachment(|state| *state == AttachmentState::Detached).await;
        assert_eq!(std::fs::read_dir(world.scratch.path().join("sessions")).unwrap().count(), 0);
        let again = refused(client.management.attach(&cx(), id, None).await);
        assert!(matches!(again, SessionError::NotAuthorized { .. }), "{again}");
    }

    async fn a_routed_call_reaches_a_service_that_the_server_does_not_know(world: World) {
        let client = world.client().await;
        let unattached = client.probe.echo(&cx(), "hi".into()).await.unwrap_err();
        assert_eq!(unattached.code(), Some(ErrorCode::NotAttached));
        let id = client.create(&world.project("p")).await.session_id;
        client.attach(&id).await;
        assert_eq!(client.probe.echo(&cx(), "hi".into()).await.unwrap(), format!("{id}: hi"));
        let stamped = world.launcher.worker(&id).client_of_last_call();
        assert_eq!(stamped, client.link.client_id().map(|id| id.to_string()));
        let state = client.probe.state().ready(&cx()).await.unwrap();
        assert_eq!(state.session, id.as_str());
    }

    async fn a_switched_client_talks_to_the_other_session_through_the_same_handles(world: World) {
        let client = world.client().await;
        let first = client.create(&world.project("a")).await.session_id;
        let second = client.create(&world.project("b")).await.session_id;
        client.attach(&first).await;
        let at = |id: &SessionId| {
            let id = id.as_str().to_owned();
            move |state: &crate::launcher::ProbeState| state.session == id
        };
        client.probe.state().wait_for(&cx(), at(&first)).await.unwrap();
        let hanging = client.probe.clone();
        let hanging = world.tasks.spawn("hang", async move { hanging.hang(&cx()).await });
        client.attach(&second).await;
        client.probe.state().wait_for(&cx(), at(&second)).await.unwrap();
        assert_eq!(client.probe.echo(&cx(), "x".into()).await.unwrap(), format!("{second}: x"));
        assert!(hanging.await.unwrap().unwrap().is_err(), "a call of the old attachment has ended");
        client.management.detach(&cx()).await.unwrap();
        client.until_attachment(|state| *state == AttachmentState::Detached).await;
        let detached = client.probe.echo(&cx(), "x".into()).await.unwrap_err();
        assert_eq!(detached.code(), Some(ErrorCode::NotAttached));
    }

    async fn two_clients_of_one_session_are_told_apart(world: World) {
        let (one, two) = (world.client().await, world.client().await);
        let id = one.create(&world.project("p")).await.session_id;
        one.attach(&id).await;
        two.attach(&id).await;
        one.probe.echo(&cx(), "x".into()).await.unwrap();
        let first = world.launcher.worker(&id).client_of_last_call();
        two.probe.echo(&cx(), "x".into()).await.unwrap();
        assert_ne!(first, world.launcher.worker(&id).client_of_last_call());
        two.management.detach(&cx()).await.unwrap();
        one.probe.echo(&cx(), "x".into()).await.unwrap();
    }

    async fn a_directory_that_cannot_be_worked_in_is_refused_with_what_to_do(world: World) {
        let client = world.client().await;
        let gone = world.scratch.path().join("gone");
        let refusal = refused(client.management.create(&cx(), begin_in(&gone)).await).to_string();
        assert!(refusal.contains("/gone: it does not exist; create it"), "{refusal}");
        let relative = refused(client.management.create(&cx(), begin_in(Path::new("src"))).await);
        assert!(relative.to_string().contains("relative"), "{relative}");
        assert!(client.list().await.is_empty());
    }

    async fn the_newest_session_of_a_directory_is_found_and_so_is_its_workspace(world: World) {
        let client = world.client().await;
        let (root, deep) = (world.project("p"), world.project("p/src"));
        std::fs::create_dir(root.join(".git")).unwrap();
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        assert_eq!(client.directory.newest_in(&cx(), path(&deep)).await.unwrap(), None);
        assert_eq!(client.directory.workspace(&cx(), path(&deep)).await.unwrap(), None);
        let older = client.create(&deep).await;
        let newer = client.create(&deep).await.session_id;
        let above = client.create(&root).await;
        assert_eq!(above.workspace_id, older.workspace_id);
        let found = client.directory.newest_in(&cx(), path(&deep)).await.unwrap();
        assert_eq!(found.unwrap().session_id, newer);
        client.management.rename(&cx(), older.session_id.clone(), "touched".into()).await.unwrap();
        let found = client.directory.newest_in(&cx(), path(&deep)).await.unwrap();
        assert_eq!(found.unwrap().session_id, older.session_id);
        let workspace = client.directory.workspace(&cx(), path(&deep)).await.unwrap().unwrap();
        assert_eq!((workspace.workspace_id, workspace.name.as_str()), (older.workspace_id, "p"));
    }

    async fn a_worker_reads_and_changes_its_own_record_and_nobody_else_does(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        client.until_status(&id, SessionStatus::Idle).await;
        let record = world.launcher.worker(&id).record();
        let model: ModelRef = "local::large".parse().unwrap();
        record.switch_model(&cx(), model.clone(), ThinkingLevel::High).await.unwrap();
        let current = record.current(&cx()).await.unwrap();
        assert_eq!((current.model, current.thinking_level), (Some(model.clone()), ThinkingLevel::High));
        client.until(|directory| directory.sessions[0].model == Some(model.clone())).await;
        let outsider: bezel_sessions_contract::SessionRecordClient = client.link.server().use_service();
        let refusal = refused(outsider.current(&cx()).await);
        assert!(refusal.to_string().contains("only a session's own worker"), "{refusal}");
    }

    async fn attaching_to_what_does_not_exist_leaves_the_client_where_it_was(world: World) {
        let client = world.client().await;
        let id = client.create(&world.project("p")).await.session_id;
        client.attach(&id).await;
        let unknown = SessionId::new("0000");
        let refusal = refused(client.management.attach(&cx(), unknown.clone(), None).await);
        assert_eq!(refusal, SessionError::NotAuthorized { session_id: unknown });
        client.probe.echo(&cx(), "still here".into()).await.unwrap();
    }
}

#[tokio::test]
async fn a_worker_cannot_be_attached_to_a_session() {
    let world = World::start(Via::Loopback).await;
    let client = world.client().await;
    let id = client.create(&world.project("p")).await.session_id;
    client.until_status(&id, SessionStatus::Idle).await;
    let management: bezel_sessions_contract::SessionManagementClient =
        world.launcher.worker(&id).server();
    let outcome = management.attach(&cx(), id, None).await;
    let Err(CallError::Service(SessionError::Invalid { message })) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(message.contains("cannot be attached"), "{message}");
}
