//! Many clients of one worker at once.

use bezel_rpc::{Context, ErrorCode};
use futures::FutureExt;

use crate::stage::{Stage, count, on_every_transport, wait_until, within};

on_every_transport! {
    async fn snapshots_for_many_clients_at_once_wait_for_each_other_instead_of_ending_the_connection(stage: Stage) {
        let cx = Context::background();
        let worker = stage.worker("S0").await;
        // Together more than the queue of one connection holds.
        worker.catalogue.log.set(&cx, vec!["x".repeat(1 << 20)]);
        let (mut clients, mut logs) = (Vec::new(), Vec::new());
        for _ in 0..16 {
            let client = stage.client("ann").await;
            let models = client.attach(&stage, "S0").await;
            logs.push(models.log());
            clients.push(client);
        }
        for log in &logs {
            assert_eq!(within(log.ready(&cx)).await.expect("no deadline")[0].len(), 1 << 20);
        }
        let attached = clients.iter().map(|client| count(&client.tap.received(), "attachment"));
        assert!(attached.max() <= Some(2), "the worker stayed connected");
    }

    async fn one_change_for_many_clients_leaves_the_worker_as_one_frame(stage: Stage) {
        let cx = Context::background();
        let worker = stage.worker("S0").await;
        let (mut clients, mut logs) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let client = stage.client("ann").await;
            let log = client.attach(&stage, "S0").await.log();
            within(log.ready(&cx)).await.expect("no deadline");
            logs.push(log);
            clients.push(client);
        }
        let state_frames = || count(&stage.received.lock().expect("lock"), "state");
        let before = state_frames();
        worker.catalogue.log.set(&cx, vec!["line".into()]);
        for log in &logs {
            within(log.wait_for(&cx, |log| log.len() == 1)).await.expect("no deadline");
        }
        assert_eq!(state_frames() - before, 1);
    }

    async fn a_client_that_sends_more_than_a_worker_takes_is_given_up_alone(stage: Stage) {
        let cx = Context::background();
        let worker = stage.worker("S0").await;
        let (greedy, other) = (stage.client("ann").await, stage.client("ann").await);
        let models = greedy.attach(&stage, "S0").await;
        let others = other.attach(&stage, "S0").await;
        worker.tap.stall(true);
        let lost = greedy.id();
        // Each is begun and given up at once; what waits for the worker passes any bound.
        let text = "x".repeat(1 << 20);
        wait_until("the client is given up", || {
            drop(models.echo(&cx, text.clone()).now_or_never());
            greedy.link.client_id() != Some(lost.clone())
        })
        .await;
        worker.tap.stall(false);
        let echoed = async {
            loop {
                match others.echo(&cx, "still here".into()).await {
                    Err(error) if error.code() == Some(ErrorCode::ResourceExhausted) => tokio::task::yield_now().await,
                    outcome => break outcome,
                }
            }
        };
        assert_eq!(within(echoed).await.expect("the worker stayed"), "still here");
        assert_eq!(worker.tap.attempts(), 1);
        assert!(other.link.connection().get().is_connected());
    }
}
