//! Order, rollback, deadlines and disposal as a host sees them.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something unexpected happens"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bezel_kernel::{Deadlines, Phase, StartError, Unit, start};
use futures::FutureExt;
use proptest::prelude::*;

type Log = Arc<Mutex<Vec<String>>>;

#[derive(Clone, Copy, PartialEq)]
enum Fails {
    Never,
    InSetup,
    InActivation,
    InDisposal,
    ByPanic,
    ByHanging,
}

fn unit(log: &Log, name: &str, needs: &[&str], required: bool, fails: Fails) -> Unit {
    let (log, text) = (Arc::clone(log), name.to_owned());
    Unit {
        name: name.into(),
        required,
        needs: needs.iter().map(|need| (*need).into()).collect(),
        setup: Box::new(move |scope| {
            async move {
                let note = |what: &str| log.lock().unwrap().push(format!("{what} {text}"));
                note("setup");
                if fails == Fails::InSetup {
                    return Err("broken setup".into());
                }
                let (inner, label) = (Arc::clone(&log), text.clone());
                scope.on_activate(move || async move {
                    inner.lock().unwrap().push(format!("activate {label}"));
                    match fails {
                        Fails::InActivation => Err("broken activation".into()),
                        Fails::ByPanic => panic!("a bug"),
                        Fails::ByHanging => std::future::pending().await,
                        _ => Ok(()),
                    }
                });
                let (inner, label) = (Arc::clone(&log), text.clone());
                scope.on_dispose(move || async move {
                    inner.lock().unwrap().push(format!("dispose {label}"));
                    if fails == Fails::InDisposal {
                        Err("broken disposal".into())
                    } else {
                        Ok(())
                    }
                });
                Ok(())
            }
            .boxed()
        }),
    }
}

fn lines(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

#[tokio::test]
async fn setup_in_order_then_activation_by_need_then_disposal_in_reverse() {
    let log = Log::default();
    let units = vec![
        unit(&log, "a", &["c"], true, Fails::Never),
        unit(&log, "b", &[], true, Fails::Never),
        unit(&log, "c", &[], true, Fails::Never),
    ];
    let between = Arc::clone(&log);
    let running = start(units, Deadlines::default(), |_| {
        between.lock().unwrap().push("between".into())
    });
    let running = running.await.unwrap();
    assert_eq!(
        lines(&log),
        [
            "setup a",
            "setup b",
            "setup c",
            "between",
            "activate b",
            "activate c",
            "activate a"
        ]
    );
    assert!(running.dispose().await.is_empty());
    assert_eq!(lines(&log), ["dispose a", "dispose c", "dispose b"]);
}

#[tokio::test]
async fn a_required_unit_that_fails_disposes_everything_before_it() {
    for fails in [Fails::InSetup, Fails::InActivation, Fails::ByPanic] {
        let log = Log::default();
        let units = vec![
            unit(&log, "a", &[], true, Fails::Never),
            unit(&log, "b", &[], false, Fails::InDisposal),
            unit(&log, "c", &[], true, fails),
        ];
        let error = start(units, Deadlines::default(), |_| ())
            .await
            .unwrap_err();
        let StartError::Failed {
            failure,
            while_disposing,
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(&*failure.unit, "c");
        assert_eq!(while_disposing.len(), 1, "{error}");
        assert!(
            error
                .to_string()
                .contains("disposal of `b` failed: broken disposal"),
            "{error}"
        );
        let disposed: Vec<_> = lines(&log)
            .into_iter()
            .filter(|line| line.starts_with("dispose"))
            .collect();
        let expected: &[&str] = if fails == Fails::InSetup {
            &["dispose b", "dispose a"]
        } else {
            &["dispose c", "dispose b", "dispose a"]
        };
        assert_eq!(disposed, expected);
    }
}

#[tokio::test]
async fn an_optional_unit_falls_alone_with_what_needs_it_and_the_reason_names_the_chain() {
    let log = Log::default();
    let units = vec![
        unit(&log, "user of user", &["user"], false, Fails::Never),
        unit(&log, "user", &["broken"], false, Fails::Never),
        unit(&log, "broken", &[], false, Fails::InActivation),
        unit(&log, "other", &[], true, Fails::Never),
    ];
    let running = start(units, Deadlines::default(), |_| ()).await.unwrap();
    assert_eq!(
        running.names().map(|name| &**name).collect::<Vec<_>>(),
        ["other"]
    );
    let reason = |name: &str| {
        running
            .unavailable()
            .iter()
            .find(|lost| &*lost.unit == name)
            .unwrap()
            .reason
            .clone()
    };
    assert_eq!(
        reason("broken"),
        "activation of `broken` failed: broken activation"
    );
    assert!(
        reason("user of user").contains("`user`") && reason("user of user").contains("`broken`")
    );
    assert!(!lines(&log).contains(&"activate user".to_owned()));
}

#[tokio::test]
async fn a_required_unit_cannot_do_without_an_optional_one_it_needs() {
    let log = Log::default();
    let units = vec![
        unit(&log, "broken", &[], false, Fails::InSetup),
        unit(&log, "user", &["broken"], true, Fails::Never),
    ];
    let error = start(units, Deadlines::default(), |_| ())
        .await
        .unwrap_err();
    assert!(matches!(error, StartError::Unavailable { .. }), "{error}");
    assert!(
        error.to_string().contains("`user` is required")
            && error.to_string().contains("broken setup")
    );
}

#[tokio::test(start_paused = true)]
async fn what_hangs_is_named_when_its_deadline_passes() {
    let log = Log::default();
    let units = vec![unit(&log, "stuck", &[], true, Fails::ByHanging)];
    let error = start(units, Deadlines::default(), |_| ())
        .await
        .unwrap_err();
    let StartError::Failed { failure, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (&*failure.unit, failure.phase),
        ("stuck", Phase::Activation)
    );
    assert!(
        error.to_string().contains("did not end within 10s"),
        "{error}"
    );
}

#[tokio::test]
async fn a_circle_is_named_before_anything_runs() {
    let log = Log::default();
    let units = vec![
        unit(&log, "a", &["b"], true, Fails::Never),
        unit(&log, "b", &["c"], true, Fails::Never),
        unit(&log, "c", &["b"], true, Fails::Never),
    ];
    let error = start(units, Deadlines::default(), |_| ())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "units need each other in a circle: b → c → b"
    );
    assert!(lines(&log).is_empty());
}

#[tokio::test]
async fn removing_a_unit_ends_its_users_first_and_its_tasks_and_resources() {
    let log = Log::default();
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let mut provider = unit(&log, "provider", &[], true, Fails::Never);
    let setup = provider.setup;
    provider.setup = Box::new(move |scope| {
        scope.spawner().spawn("holds the sender", async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        });
        setup(scope)
    });
    let units = vec![
        unit(&log, "user", &["provider"], false, Fails::Never),
        provider,
    ];
    let mut running = start(units, Deadlines::default(), |_| ()).await.unwrap();
    lines(&log);
    let (gone, failures) = running.remove("provider").await;
    assert_eq!(
        gone.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["provider", "user"]
    );
    assert!(failures.is_empty());
    assert_eq!(lines(&log), ["dispose user", "dispose provider"]);
    tokio::time::timeout(Duration::from_secs(5), receiver)
        .await
        .unwrap()
        .unwrap_err();
}

proptest! {
    /// Whatever fails, each unit that was set up is disposed exactly once, users before providers.
    #[test]
    fn everything_set_up_is_disposed_once(
        shape in prop::collection::vec((0_usize..6, any::<bool>(), 0_u8..4), 1..7)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let log = Log::default();
        let names: Vec<String> = (0..shape.len()).map(|index| format!("u{index}")).collect();
        let units = shape.iter().enumerate().map(|(index, (need, required, fails))| {
            let needs: Vec<&str> = if *need < index { vec![names[*need].as_str()] } else { vec![] };
            let fails = [Fails::Never, Fails::InSetup, Fails::InActivation, Fails::InDisposal][*fails as usize];
            unit(&log, &names[index], &needs, *required, fails)
        });
        let units: Vec<Unit> = units.collect();
        let failing_setup: Vec<&String> =
            names.iter().zip(&shape).filter(|(_, shape)| shape.2 == 1).map(|(name, _)| name).collect();
        runtime.block_on(async {
            if let Ok(running) = start(units, Deadlines::default(), |_| ()).await {
                running.dispose().await;
            }
        });
        let lines = lines(&log);
        for name in &names {
            let count = |what: &str| lines.iter().filter(|line| **line == format!("{what} {name}")).count();
            let registered = count("setup") == 1 && !failing_setup.contains(&name);
            prop_assert_eq!(count("dispose"), usize::from(registered), "{} in {:?}", name, &lines);
        }
        for (index, (need, ..)) in shape.iter().enumerate() {
            let place = |name: &str| lines.iter().position(|line| *line == format!("dispose {name}"));
            if *need < index && let (Some(user), Some(provider)) = (place(&names[index]), place(&names[*need])) {
                let user_was_active = lines.contains(&format!("activate {}", names[index]));
                prop_assert!(user < provider || !user_was_active, "{:?}", &lines);
            }
        }
    }
}
