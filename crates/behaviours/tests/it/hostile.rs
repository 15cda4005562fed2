//! Peers that mean harm, against the product's server over its socket, while a well-behaved client uses it.

use std::sync::atomic::Ordering;

use bezel_rpc::ErrorCode;
use bezel_session_types::SessionId;

use crate::raw::{Raw, frame, hello};
use crate::world::{Client, TOKEN, Via, World, cx, wait_until};

/// A server with a client that is attached and has a call under way.
struct Scene {
    world: World,
    good: Client,
    session: SessionId,
}

impl Scene {
    async fn start() -> Self {
        let world = World::start(Via::Socket).await;
        let good = world.client().await;
        let session = good.create(&world.project("p")).await;
        good.attach(&session).await;
        good.probe.state().ready(&cx()).await.unwrap();
        Scene {
            world,
            good,
            session,
        }
    }

    async fn raw(&self) -> Raw {
        Raw::welcomed(&self.world.socket()).await.0
    }

    /// A raw peer that is attached, and its incarnation.
    async fn attached(&self) -> (Raw, u64) {
        let mut raw = self.raw().await;
        let route = raw.attach(&self.session).await;
        (raw, route)
    }

    /// The server serves its own services and the session's, and the good client's things are untouched.
    async fn is_well(&self) {
        let expected = format!("{}: fine", self.session);
        assert_eq!(
            self.good.probe.echo(&cx(), "fine".into()).await.unwrap(),
            expected
        );
        self.good.directory.state().ready(&cx()).await.unwrap();
        let context = cx();
        let renamed = self
            .good
            .management
            .rename(&context, self.session.clone(), "fine".into());
        renamed.await.unwrap();
        let state = self.good.probe.state();
        assert!(state.is_ready() && !state.is_stale());
        assert_eq!(self.good.tap.attempts(), 1, "its connection was never lost");
        assert_eq!(
            self.world.worker(&self.session).tap.attempts(),
            1,
            "nor was the worker's"
        );
    }
}

#[tokio::test]
async fn bytes_that_are_no_frames_end_that_connection_with_the_right_code() {
    let scene = Scene::start().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = "x".repeat(9_000);
    let cases: &[(&str, Vec<u8>, Option<&str>)] = &[
        (
            "oversized",
            u32::MAX.to_be_bytes().to_vec(),
            Some("frame_too_large"),
        ),
        (
            "a byte over",
            (16u32 * 1024 * 1024 + 1).to_be_bytes().to_vec(),
            Some("frame_too_large"),
        ),
        ("empty", vec![0; 4], Some("protocol")),
        (
            "garbage",
            [&[0, 0, 0, 200][..], &[0xfe; 200]].concat(),
            Some("protocol"),
        ),
        ("no newline", frame(&long, ""), Some("protocol")),
        (
            "a long header",
            frame(&format!(r#"{{"k":"ping","pad":"{long}"}}"#), ""),
            Some("protocol"),
        ),
        (
            "a deep header",
            frame(&format!(r#"{{"k":"ping","pad":{}}}"#, &deep[..4000]), ""),
            Some("protocol"),
        ),
        (
            "a key twice",
            frame(r#"{"k":"ping","k":"pong"}"#, ""),
            Some("protocol"),
        ),
        (
            "an unknown kind",
            frame(r#"{"k":"shout"}"#, ""),
            Some("protocol"),
        ),
        (
            "an unsafe id",
            frame(r#"{"k":"call","i":9007199254740993}"#, ""),
            Some("protocol"),
        ),
        (
            "a deep list of services",
            frame(r#"{"k":"services"}"#, &deep),
            Some("protocol"),
        ),
        (
            "a part of nothing",
            frame(r#"{"k":"part","i":1}"#, "x"),
            Some("protocol"),
        ),
        (
            "a huge part",
            frame(r#"{"k":"part","i":1,"z":99999999999}"#, "x"),
            Some("frame_too_large"),
        ),
        ("a second hello", hello(TOKEN), Some("protocol")),
        (
            "a frame of a server",
            frame(r#"{"k":"attachment","n":1}"#, "{}"),
            Some("protocol"),
        ),
        (
            "a frame of a worker",
            frame(r#"{"k":"state","i":1,"n":1}"#, "{}"),
            Some("protocol"),
        ),
    ];
    for (name, bytes, code) in cases {
        let mut raw = scene.raw().await;
        raw.write(bytes).await;
        assert_eq!(raw.dismissed().await.as_deref(), *code, "{name}");
        // The same before anybody was let in.
        let mut stranger = Raw::connect(&scene.world.socket()).await;
        if *name != "a second hello" {
            stranger.write(bytes).await;
            assert_eq!(
                stranger.dismissed().await.as_deref(),
                *code,
                "{name}, as a stranger"
            );
        }
    }
    scene.is_well().await;
    wait_until("only the good client is left", || {
        scene.world.server.status().clients == 1
    })
    .await;
}

#[tokio::test]
async fn a_stranger_is_not_listened_to_for_long() {
    let scene = Scene::start().await;
    let mut stranger = Raw::connect(&scene.world.socket()).await;
    // Within what anybody else may send, and announced alone: nothing of it has to arrive.
    stranger.write(&(1u32 << 20).to_be_bytes()).await;
    assert_eq!(
        stranger.dismissed().await.as_deref(),
        Some("frame_too_large")
    );
    let mut known = scene.raw().await;
    let long = "x".repeat(1 << 20);
    known
        .write(&frame(r#"{"k":"pong"}"#, &format!("\"{long}\"")))
        .await;
    known.write(&frame(r#"{"k":"ping"}"#, "")).await;
    known.next_of(&["pong"]).await;
    scene.is_well().await;
}

#[tokio::test]
async fn half_open_torn_and_slow_peers_hold_nobody_up() {
    let scene = Scene::start().await;
    // They say nothing, or stop within a frame, and stay.
    let mut silent = Vec::new();
    for kept in [0, 1, 4, 10, 60] {
        let mut raw = Raw::connect(&scene.world.socket()).await;
        raw.write(&hello(TOKEN)[..kept]).await;
        silent.push(raw);
    }
    for kept in [2, 20, 40] {
        let mut raw = scene.raw().await;
        raw.write(
            &frame(
                r#"{"k":"call","i":1,"s":"probe","m":"echo"}"#,
                r#"{"text":"x"}"#,
            )[..kept],
        )
        .await;
        silent.push(raw);
    }
    scene.is_well().await;
    // A byte at a time, and the good client between all of them.
    let mut slow = Raw::connect(&scene.world.socket()).await;
    let mut bytes = hello(TOKEN);
    bytes.extend(frame(r#"{"k":"ping"}"#, ""));
    for (at, byte) in bytes.iter().enumerate() {
        slow.write(&[*byte]).await;
        tokio::task::yield_now().await;
        if at % 40 == 0 {
            scene.is_well().await;
        }
    }
    assert_eq!(slow.next().await.unwrap().0["k"], "welcome");
    slow.next_of(&["pong"]).await;
    // They go in the middle of what they say.
    drop(silent);
    drop(slow);
    wait_until("they are gone", || scene.world.server.status().clients == 1).await;
    scene.is_well().await;
}

#[tokio::test]
async fn payloads_that_are_bombs_are_refused_and_the_connection_goes_on() {
    let scene = Scene::start().await;
    let (mut raw, route) = scene.attached().await;
    let nested = |count: usize| {
        format!(
            r#"{{"text":"x","more":{}{}}}"#,
            "[".repeat(count),
            "]".repeat(count)
        )
    };
    let many = format!(r#"{{"text":"x","more":[{}1]}}"#, "1,".repeat(200_000));
    let bombs = [
        nested(65),
        nested(1_000_000),
        r#"{"text":"x","text":"y"}"#.to_owned(),
        r#"{"text":"x","more":{"a":1,"a":2}}"#.to_owned(),
        r#"{"text":NaN}"#.to_owned(),
        r#"{"text":Infinity}"#.to_owned(),
        r#"{"text":"x","more":9007199254740993}"#.to_owned(),
        r#"{"text":"x","more":-9007199254740993}"#.to_owned(),
        r#"{"text":"x"}{"text":"x"}"#.to_owned(),
        r#"{"text":"\ud800"}"#.to_owned(),
        "\u{feff}{}".to_owned(),
    ];
    let called = || {
        scene
            .world
            .worker(&scene.session)
            .object
            .called
            .load(Ordering::SeqCst)
    };
    let before = called();
    for (index, bomb) in bombs.iter().enumerate() {
        let header = format!(
            r#"{{"k":"call","i":{},"n":{route},"s":"probe","m":"echo"}}"#,
            index + 10
        );
        assert_eq!(
            raw.code(&header, bomb).await,
            "invalid_arguments",
            "{bomb:.60}"
        );
        let header = format!(
            r#"{{"k":"call","i":{},"s":"session-management","m":"rename"}}"#,
            index + 10
        );
        assert_eq!(
            raw.code(&header, bomb).await,
            "invalid_arguments",
            "{bomb:.60}"
        );
    }
    assert_eq!(called(), before, "nothing of it ran");
    raw.send(
        &format!(r#"{{"k":"call","i":99,"n":{route},"s":"probe","m":"echo"}}"#),
        &many,
    )
    .await;
    assert_eq!(
        raw.next_of(&["ok", "err"]).await.0["k"],
        "ok",
        "much is not wrong"
    );
    scene.is_well().await;
}

#[tokio::test]
async fn a_forged_header_reaches_nothing_of_another_client() {
    let scene = Scene::start().await;
    let worker = scene.world.worker(&scene.session);
    let context = cx();
    let mut running = Box::pin(scene.good.probe.hang(&context));
    assert!(futures::poll!(&mut running).is_pending());
    wait_until("it runs", || worker.object.hanging() == 1).await;
    let hang = worker
        .tap
        .received()
        .into_iter()
        .find(|(header, _)| header.contains("\"hang\""))
        .unwrap();
    let hang: serde_json::Value = serde_json::from_str(&hang.0).unwrap();
    let (goods, id) = (hang["n"].as_u64().unwrap(), hang["i"].as_u64().unwrap());

    let (mut raw, own) = scene.attached().await;
    assert_ne!(own, goods);
    for route in [goods, 0, own + 1, 1 << 53] {
        for kind in ["cancel", "unsubscribe", "credit", "release"] {
            raw.send(
                &format!(r#"{{"k":"{kind}","i":{id},"n":{route},"w":1,"ref":1}}"#),
                "",
            )
            .await;
        }
        raw.send(
            &format!(r#"{{"k":"call","i":50,"n":{route},"s":"probe","m":"echo"}}"#),
            r#"{"text":"x"}"#,
        )
        .await;
        raw.send(
            &format!(r#"{{"k":"subscribe","i":51,"n":{route},"s":"probe"}}"#),
            "",
        )
        .await;
    }
    // Under its own incarnation another's ids mean nothing, and lists of targets are not a client's.
    raw.send(&format!(r#"{{"k":"cancel","i":{id},"n":{own}}}"#), "")
        .await;
    raw.send(&format!(r#"{{"k":"release","n":{own},"ref":1}}"#), "")
        .await;
    raw.send(
        &format!(r#"{{"k":"call","i":52,"n":{own},"s":"probe","m":"echo","x":[[{goods},{id}],[{goods},50]]}}"#),
        r#"{"text":"mine"}"#,
    )
    .await;
    let (header, payload) = raw
        .next_of(&["ok", "err", "snapshot", "closed", "state"])
        .await;
    assert_eq!(
        (header["i"].as_u64(), header["n"].as_u64()),
        (Some(52), Some(own)),
        "{payload}"
    );
    // References are each client's own.
    let job = scene.good.probe.work(&context).await.unwrap();
    job.done().ready(&context).await.unwrap();
    for reference in 0..4 {
        let call = format!(r#"{{"k":"call","i":60,"n":{own},"ref":{reference},"m":"cancel"}}"#);
        assert_eq!(raw.code(&call, "{}").await, "stale_reference");
    }
    assert!(futures::poll!(&mut running).is_pending());
    assert_eq!(worker.object.hanging(), 1);
    assert!(
        worker
            .object
            .job
            .lock()
            .unwrap()
            .as_ref()
            .unwrap()
            .outcome()
            .is_none()
    );
    scene.is_well().await;
}

#[tokio::test]
async fn an_id_in_use_is_refused_and_what_uses_it_goes_on() {
    let scene = Scene::start().await;
    let worker = scene.world.worker(&scene.session);
    let (mut raw, route) = scene.attached().await;
    let hang = format!(r#"{{"k":"call","i":7,"n":{route},"s":"probe","m":"hang"}}"#);
    raw.send(&hang, "{}").await;
    wait_until("it runs", || worker.object.hanging() == 1).await;
    assert_eq!(raw.code(&hang, "{}").await, "protocol");
    assert_eq!(worker.object.hanging(), 1);
    let subscribe = format!(r#"{{"k":"subscribe","i":8,"n":{route},"s":"probe"}}"#);
    raw.send(&subscribe, "").await;
    raw.next_of(&["snapshot"]).await;
    assert_eq!(raw.code(&subscribe, "").await, "protocol");
    worker.object.state.update(&cx(), |state| state.count += 1);
    assert_eq!(raw.next_of(&["state"]).await.0["i"], 8);
    drop(raw);
    wait_until("its call ended with it", || worker.object.hanging() == 0).await;
    scene.is_well().await;
}

#[tokio::test]
async fn a_stranger_learns_nothing_and_no_refusal_tells_a_secret() {
    let scene = Scene::start().await;
    for credential in [
        "",
        "wrong",
        "the-token-of-this-servex",
        "the-token-of-this-server ",
    ] {
        let mut raw = Raw::connect(&scene.world.socket()).await;
        raw.write(&hello(credential)).await;
        let (header, payload) = raw.next().await.unwrap();
        assert_eq!(
            (header["k"].as_str(), payload["code"].as_str()),
            (Some("refuse"), Some("not_authorized"))
        );
        assert!(
            !payload.to_string().contains(TOKEN)
                && payload["message"].as_str().unwrap().len() < 400
        );
        assert!(raw.next().await.is_none());
    }
    let mut raw = Raw::connect(&scene.world.socket()).await;
    raw.write(&frame(
        r#"{"k":"call","i":1,"s":"session-directory","m":"messages"}"#,
        "{}",
    ))
    .await;
    assert_eq!(raw.dismissed().await.as_deref(), Some("protocol"));
    scene.is_well().await;
    let gone = scene
        .good
        .management
        .attach(&cx(), SessionId::new("../../etc"), None)
        .await;
    assert_ne!(gone.unwrap_err().code(), Some(ErrorCode::Internal));
}
