//! References over a connection: what they reach, how long they live, whose they are.

use std::sync::Arc;
use std::time::Duration;

use bezel_rpc::{
    AttachmentState, CallError, Context, Delivery, ErrorCode, JobError, Limits, ServiceClient,
    ServiceTable,
};

use crate::jobs::{Depot, PenClient, ScanEvent, ScannerClient, StartError};
use crate::stage::{Client, Medium, Stage, Worker, count, on_every_transport, wait_until, within};

/// Whether the service is the server's own or that of an attached worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Direct,
    Routed,
}

const WAYS: [Way; 2] = [Way::Direct, Way::Routed];

/// A host that provides the scanner.
struct Host {
    way: Way,
    depot: Depot,
    table: ServiceTable,
    worker: Option<Worker>,
}

impl Host {
    async fn start(stage: &Stage, way: Way) -> Self {
        let depot = Depot::new();
        let worker = match way {
            Way::Direct => None,
            Way::Routed => Some(stage.worker("S0").await),
        };
        let table = worker
            .as_ref()
            .map_or(&stage.table, |worker| &worker.table)
            .clone();
        table.withdraw("scanner");
        table
            .provide(ScannerClient::new(depot.clone()).exposed())
            .expect("it is free");
        Host {
            way,
            depot,
            table,
            worker,
        }
    }

    async fn client(&self, stage: &Stage, token: &str) -> (Client, ScannerClient) {
        let client = stage.client(token).await;
        let scanner = self.reach(stage, &client).await;
        (client, scanner)
    }

    async fn reach(&self, stage: &Stage, client: &Client) -> ScannerClient {
        match self.way {
            Way::Direct => client.link.server().use_service(),
            Way::Routed => {
                client.attach(stage, "S0").await;
                let attached = client.link.attached();
                wait_until("the scanner is known", || {
                    attached.check::<ScannerClient>().is_ok()
                })
                .await;
                attached.use_service()
            }
        }
    }

    async fn stop(self) {
        if let Some(worker) = self.worker {
            worker.link.stop().await;
        }
    }
}

async fn take(scanner: &ScannerClient) -> PenClient {
    scanner.pen(&Context::background()).await.expect("a pen")
}

async fn write(pen: &PenClient) -> Option<ErrorCode> {
    match pen.write(&Context::background(), "x".into()).await {
        Ok(length) => {
            assert_eq!(length, 1);
            None
        }
        Err(error) => error.code(),
    }
}

on_every_transport! {
    async fn a_job_crosses_as_a_handle_with_progress_events_and_a_result(stage: Stage) {
        let cx = Context::background();
        for way in WAYS {
            let host = Host::start(&stage, way).await;
            let (_client, scanner) = host.client(&stage, "ann").await;
            let refused = scanner.start(&cx, "nowhere".into()).await.expect_err("no folder");
            assert_eq!(refused, CallError::Service(StartError::NoFolder { root: "nowhere".into() }));
            assert!(scanner.current(&cx).await.expect("no error").is_none());

            let job = scanner.start(&cx, "src".into()).await.expect("it starts");
            let progress = job.progress();
            assert_eq!(within(progress.ready(&cx)).await.expect("no deadline").done, 0);
            let mut events = job.events().subscribe();
            let mut wait = Box::pin(job.wait(&cx));
            assert!(futures::poll!(&mut wait).is_pending());

            let running = host.depot.newest();
            running.events.emit(&cx, ScanEvent::Found { name: "a.rs".into() });
            running.step();
            within(progress.wait_for(&cx, |progress| progress.done == 1)).await.expect("no deadline");
            let Some(Delivery::Event { value, .. }) = within(events.next()).await else { panic!("an event") };
            assert_eq!(*value, ScanEvent::Found { name: "a.rs".into() });
            for done in 2..=3 {
                running.step();
                within(progress.wait_for(&cx, |progress| progress.done == done)).await.expect("no deadline");
            }
            assert_eq!(within(wait).await, Ok(3));
            let late = scanner.current(&cx).await.expect("no error").expect("a job");
            assert_eq!(within(late.wait(&cx)).await, Ok(3), "a complete job still answers");
            host.stop().await;
        }
    }

    async fn a_jobs_own_error_crosses_with_its_fields(stage: Stage) {
        let cx = Context::background();
        let host = Host::start(&stage, Way::Direct).await;
        let (_client, scanner) = host.client(&stage, "ann").await;
        let job = scanner.start(&cx, "broken".into()).await.expect("it starts");
        host.depot.newest().step();
        let failed = JobError::failed("a file cannot be read");
        assert_eq!(within(job.wait(&cx)).await, Err(CallError::Service(failed)));
    }

    async fn an_aborted_wait_ends_one_wait_and_cancel_ends_the_job_for_everyone(stage: Stage) {
        let cx = Context::background();
        for way in WAYS {
            let host = Host::start(&stage, way).await;
            let (_ann, anns) = host.client(&stage, "ann").await;
            let (_bob, bobs) = host.client(&stage, "bob").await;
            let started = anns.start(&cx, "src".into()).await.expect("it starts");
            let same = bobs.current(&cx).await.expect("no error").expect("a job");
            let (aborting, cancel) = cx.with_cancel();
            let mut aborted = Box::pin(started.wait(&aborting));
            let mut dropped = Box::pin(started.wait(&cx));
            let mut others = Box::pin(same.wait(&cx));
            assert!(futures::poll!(&mut aborted).is_pending());
            assert!(futures::poll!(&mut dropped).is_pending());
            assert!(futures::poll!(&mut others).is_pending());
            drop(dropped);
            cancel.cancel();
            assert_eq!(within(aborted).await.expect_err("aborted").code(), Some(ErrorCode::Cancelled));

            // The job and the other wait go on.
            host.depot.newest().step();
            let progress = same.progress();
            within(progress.wait_for(&cx, |progress| progress.done == 1)).await.expect("no deadline");
            assert!(futures::poll!(&mut others).is_pending());

            started.cancel(&cx).await.expect("it is allowed");
            assert_eq!(within(others).await, Err(CallError::Service(JobError::JobCancelled)));
            assert_eq!(host.depot.newest().job.outcome(), Some(Err(JobError::JobCancelled)));
            host.stop().await;
        }
    }

    async fn a_lost_connection_ends_references_and_waits_but_no_job(stage: Stage) {
        let cx = Context::background();
        for way in WAYS {
            let host = Host::start(&stage, way).await;
            let (client, scanner) = host.client(&stage, "ann").await;
            let job = scanner.start(&cx, "src".into()).await.expect("it starts");
            let pen = take(&scanner).await;
            let (progress, events) = (job.progress(), job.events());
            let mut stream = events.subscribe();
            within(progress.ready(&cx)).await.expect("no deadline");
            let mut wait = Box::pin(job.wait(&cx));
            assert!(futures::poll!(&mut wait).is_pending());
            client.tap.cut();
            assert_eq!(within(wait).await.expect_err("cut").code(), Some(ErrorCode::Disconnected));
            wait_until("the pen was let go", || host.depot.pens() == 0).await;
            wait_until("the progress is stale", || progress.is_stale()).await;
            assert!(within(stream.next()).await.is_none(), "an object's events end with it");
            assert!(within(events.subscribe().next()).await.is_none());

            client.connected().await;
            let scanner = host.reach(&stage, &client).await;
            assert_eq!(write(&pen).await, Some(ErrorCode::StaleReference));
            assert_eq!(job.wait(&cx).await.expect_err("stale").code(), Some(ErrorCode::StaleReference));
            assert!(progress.is_stale() && job.progress().is_stale(), "the last value stays, marked");

            let again = within(async {
                loop {
                    match scanner.current(&cx).await {
                        Ok(job) => break job.expect("the job"),
                        Err(_) => tokio::task::yield_now().await,
                    }
                }
            }).await;
            for _ in 0..3 {
                let before = again.progress().ready(&cx).await.expect("no deadline").done;
                host.depot.newest().step();
                within(again.progress().wait_for(&cx, |progress| progress.done == before + 1)).await.expect("no deadline");
            }
            assert_eq!(within(again.wait(&cx)).await, Ok(3));
            host.stop().await;
        }
    }

    async fn an_object_is_given_back_when_the_last_local_handle_is_dropped(stage: Stage) {
        let cx = Context::background();
        for way in WAYS {
            let host = Host::start(&stage, way).await;
            let (_client, scanner) = host.client(&stage, "ann").await;
            let (first, second) = (take(&scanner).await, take(&scanner).await);
            assert_eq!(host.depot.pens(), 2);
            let (clone, ink) = (first.clone(), second.ink());
            within(ink.ready(&cx)).await.expect("no deadline");
            drop(first);
            drop(second);
            assert_eq!(write(&clone).await, None, "a clone is enough");
            assert_eq!(host.depot.pens(), 2, "a state taken from it is enough");
            drop(clone);
            wait_until("one was given back", || host.depot.pens() == 1).await;
            drop(ink);
            wait_until("both were given back", || host.depot.pens() == 0).await;
            host.stop().await;
        }
    }

    async fn a_switch_lets_go_of_what_the_attachment_gave(stage: Stage) {
        let cx = Context::background();
        let host = Host::start(&stage, Way::Routed).await;
        let _other = stage.worker("S1").await;
        let (client, scanner) = host.client(&stage, "ann").await;
        let pen = take(&scanner).await;
        let ink = pen.ink();
        within(ink.ready(&cx)).await.expect("no deadline");
        client.attach(&stage, "S1").await;
        wait_until("the pen was let go", || host.depot.pens() == 0).await;
        assert_eq!(write(&pen).await, Some(ErrorCode::StaleReference));
        assert!(ink.is_stale());

        // Back again is another attachment: the old handle stays what it is.
        let scanner = host.reach(&stage, &client).await;
        let fresh = take(&scanner).await;
        assert_eq!(write(&pen).await, Some(ErrorCode::StaleReference));
        assert_eq!(write(&fresh).await, None);
        stage.router.unbind(&client.id()).expect("the client is connected");
        let attachment = client.link.attached().attachment();
        within(attachment.wait_for(&cx, |state| *state == AttachmentState::Detached)).await.expect("no deadline");
        wait_until("the pen was let go", || host.depot.pens() == 0).await;
        assert_eq!(write(&fresh).await, Some(ErrorCode::StaleReference));
    }

    async fn equal_ids_of_two_clients_are_two_objects(stage: Stage) {
        let cx = Context::background();
        for way in WAYS {
            let host = Host::start(&stage, way).await;
            let (ann, anns) = host.client(&stage, "ann").await;
            let (bob, bobs) = host.client(&stage, "bob").await;
            let (hers, his) = (take(&anns).await, take(&bobs).await);
            let given = |client: &Client| {
                let frames = client.tap.received();
                let header = &frames.iter().find(|(header, _)| header.contains("\"ref\":")).expect("a reference").0;
                serde_json::from_str::<serde_json::Value>(header).expect("a header")["ref"].as_u64()
            };
            assert_eq!(given(&ann), given(&bob), "the test means equal ids");
            assert_eq!(write(&hers).await, None);
            assert_eq!(*within(hers.ink().ready(&cx)).await.expect("no deadline"), 99);
            assert_eq!(*within(his.ink().ready(&cx)).await.expect("no deadline"), 100);
            drop(hers);
            wait_until("hers was given back", || host.depot.pens() == 1).await;
            assert_eq!(write(&his).await, None);
            host.stop().await;
        }
    }

    async fn members_of_an_object_ask_for_their_scopes(stage: Stage) {
        let cx = Context::background();
        for way in WAYS {
            let host = Host::start(&stage, way).await;
            let (_ann, anns) = host.client(&stage, "ann").await;
            let (_guest, guests) = host.client(&stage, "guest").await;
            anns.start(&cx, "src".into()).await.expect("it is allowed");
            let job = guests.current(&cx).await.expect("reading is allowed").expect("a job");
            within(job.progress().ready(&cx)).await.expect("no deadline");
            assert_eq!(job.cancel(&cx).await.expect_err("operating is not").code(), Some(ErrorCode::NotAuthorized));
            let pen = take(&guests).await;
            assert_eq!(write(&pen).await, None);
            assert_eq!(pen.melt(&cx).await.expect_err("administering is not").code(), Some(ErrorCode::NotAuthorized));
            take(&anns).await.melt(&cx).await.expect("it is allowed");
            host.stop().await;
        }
    }

    async fn an_object_can_return_further_objects_which_outlive_it(stage: Stage) {
        for way in WAYS {
            let host = Host::start(&stage, way).await;
            let (_client, scanner) = host.client(&stage, "ann").await;
            let pen = take(&scanner).await;
            let copy = pen.copy(&Context::background()).await.expect("a copy");
            drop(pen);
            wait_until("the first was given back", || host.depot.pens() == 1).await;
            assert_eq!(write(&copy).await, None);
            host.stop().await;
        }
    }

    async fn what_a_withdrawn_service_gave_goes_with_it(stage: Stage) {
        let cx = Context::background();
        for way in WAYS {
            let host = Host::start(&stage, way).await;
            let (_client, scanner) = host.client(&stage, "ann").await;
            let pen = take(&scanner).await;
            let ink = pen.ink();
            within(ink.ready(&cx)).await.expect("no deadline");
            host.table.withdraw("scanner");
            assert_eq!(host.depot.pens(), 0);
            assert_eq!(write(&pen).await, Some(ErrorCode::StaleReference));
            wait_until("its state is stale", || ink.is_stale()).await;
            host.stop().await;
        }
    }

    async fn a_result_that_nobody_waits_for_any_more_is_given_back(stage: Stage) {
        let cx = Context::background();
        for way in WAYS {
            let host = Host::start(&stage, way).await;
            let (client, scanner) = host.client(&stage, "ann").await;
            let mut call = Box::pin(scanner.pen(&cx));
            client.tap.stall(true);
            assert!(futures::poll!(&mut call).is_pending());
            wait_until("the object was made", || host.depot.pens() == 1).await;
            drop(call);
            client.tap.stall(false);
            wait_until("it was given back", || host.depot.pens() == 0).await;

            // Received, but never looked at.
            let mut call = Box::pin(scanner.pen(&cx));
            assert!(futures::poll!(&mut call).is_pending());
            let answers = count(&client.tap.received(), "ok");
            wait_until("the answer came", || count(&client.tap.received(), "ok") > answers).await;
            drop(call);
            wait_until("it was given back", || host.depot.pens() == 0).await;
            host.stop().await;
        }
    }

    async fn nobody_passes_on_anothers_object(stage: Stage) {
        let cx = Context::background();
        let host = Host::start(&stage, Way::Direct).await;
        let middle = Depot::new();
        let (_client, scanner) = host.client(&stage, "ann").await;
        middle.keep(take(&scanner).await);
        let local = ScannerClient::new(middle.clone());
        assert!(local.passed_on(&cx).await.expect("in its process it is a handle").is_some());
        stage.table.withdraw("scanner");
        stage.table.provide(local.exposed()).expect("it is free");
        wait_until("the scanner is known", || {
            let server = _client.link.server();
            server.check::<ScannerClient>().is_ok()
        }).await;
        let refused = scanner.passed_on(&cx).await.expect_err("it is of another host");
        assert_eq!(refused.code(), Some(ErrorCode::InvalidResult));
        assert!(refused.to_string().contains("nobody passes on"), "{refused}");
    }
}

#[tokio::test]
async fn a_client_holds_only_so_many_references_and_a_refused_call_does_not_run() {
    let limits = Limits {
        references: 2,
        ..Limits::default()
    };
    let stage = Stage::with_limits(Medium::Loopback, limits);
    let cx = Context::background();
    for way in WAYS {
        let host = Host::start(&stage, way).await;
        let (_ann, anns) = host.client(&stage, "ann").await;
        let (_bob, bobs) = host.client(&stage, "bob").await;
        let job = anns.start(&cx, "src".into()).await.expect("it starts");
        let pen = take(&anns).await;
        let refused = anns
            .start(&cx, "src".into())
            .await
            .expect_err("two are held");
        assert_eq!(refused.code(), Some(ErrorCode::ResourceExhausted));
        assert!(refused.to_string().contains("references"), "{refused}");
        assert_eq!(host.depot.started(), 1, "the refused call did not run");
        assert_eq!(
            pen.copy(&cx).await.expect_err("two are held").code(),
            Some(ErrorCode::ResourceExhausted)
        );
        assert_eq!(
            write(&take(&bobs).await).await,
            None,
            "others have their own"
        );
        drop(job);
        within(async {
            while anns.start(&cx, "src".into()).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        // Calls that fail give their room back.
        drop(pen);
        wait_until("it was given back", || host.depot.pens() == 0).await;
        for _ in 0..5 {
            let refused = anns
                .start(&cx, "nowhere".into())
                .await
                .expect_err("no folder");
            assert!(refused.service().is_some(), "{refused}");
        }
        host.stop().await;
    }
}

#[test]
fn the_default_limit_is_1024_references() {
    assert_eq!(Limits::default().references, 1024);
}

#[tokio::test(start_paused = true)]
async fn a_complete_job_is_let_go_after_a_grace_period_and_a_running_one_is_not() {
    let stage = Stage::new(Medium::Loopback);
    let cx = Context::background();
    for way in WAYS {
        let host = Host::start(&stage, way).await;
        let (_client, scanner) = host.client(&stage, "ann").await;
        let running = scanner.start(&cx, "src".into()).await.expect("it starts");
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let complete = scanner.start(&cx, "src".into()).await.expect("it starts");
        let progress = complete.progress();
        within(progress.ready(&cx)).await.expect("no deadline");
        complete.cancel(&cx).await.expect("it is allowed");
        tokio::time::sleep(Duration::from_secs(4 * 60)).await;
        let cancelled = complete.wait(&cx).await.expect_err("cancelled");
        assert_eq!(
            cancelled,
            CallError::Service(JobError::JobCancelled),
            "within the grace period"
        );
        assert!(!progress.is_stale());
        tokio::time::sleep(Duration::from_secs(2 * 60)).await;
        assert_eq!(
            complete.wait(&cx).await.expect_err("expired").code(),
            Some(ErrorCode::StaleReference)
        );
        wait_until("its state is stale", || progress.is_stale()).await;
        running.cancel(&cx).await.expect("it is still there");
        host.stop().await;
    }
}

#[tokio::test]
async fn in_its_own_process_a_reference_is_the_object_itself() {
    let depot = Depot::new();
    let scanner = ScannerClient::new(depot.clone());
    let cx = Context::background();
    let job = scanner.start(&cx, "src".into()).await.expect("it starts");
    let progress = job.progress();
    assert!(progress.is_ready());
    assert!(
        Arc::ptr_eq(&progress.get(), &depot.newest().job.progress().get()),
        "no copy was made"
    );
    let pen = take(&scanner).await;
    let (clone, ink) = (pen.clone(), pen.ink());
    assert_eq!(write(&clone).await, None);
    assert_eq!(*ink.get(), 99);
    drop((pen, clone));
    assert_eq!(depot.pens(), 0);
}

#[tokio::test]
async fn a_job_ends_with_its_owner_and_says_so() {
    let depot = Depot::new();
    let scanner = ScannerClient::new(depot.clone());
    let cx = Context::background();
    let job = scanner.start(&cx, "src".into()).await.expect("it starts");
    let mut wait = Box::pin(job.wait(&cx));
    assert!(futures::poll!(&mut wait).is_pending());
    depot.close();
    assert_eq!(
        within(wait).await,
        Err(CallError::Service(JobError::JobAbandoned))
    );
    let late = scanner.start(&cx, "src".into()).await.expect("it starts");
    assert_eq!(
        within(late.wait(&cx)).await,
        Err(CallError::Service(JobError::JobAbandoned))
    );
}
