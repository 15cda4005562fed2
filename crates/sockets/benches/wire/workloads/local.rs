//! A call in one process: through a handle, and as a boxed future without one.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use bezel_rpc::Context;
use futures::future::BoxFuture;

use super::Run;
use crate::ours::{Adder, AdderClient};
use crate::raw::evented::runtime;
use crate::report::{Report, Target};

const CALLS: u64 = 300_000;

struct Sums;

impl Adder for Sums {
    async fn add(&self, _cx: &Context, left: u64, right: u64) -> u64 {
        left + right
    }
}

/// What the handle is compared with.
trait Direct: Send + Sync {
    fn add<'a>(&'a self, cx: &'a Context, left: u64, right: u64) -> BoxFuture<'a, u64>;
}

impl Direct for Sums {
    fn add<'a>(&'a self, cx: &'a Context, left: u64, right: u64) -> BoxFuture<'a, u64> {
        Box::pin(Adder::add(self, cx, left, right))
    }
}

pub fn run(run: &Run) -> Result<Report> {
    let mut report = Report::new(Vec::new());
    let handle = AdderClient::new(Sums);
    let direct: Box<dyn Direct> = Box::new(Sums);
    let runtime = runtime()?;
    let (mut through, mut bare) = (Vec::new(), Vec::new());
    for round in 0..=run.rounds {
        let (one, other) = runtime.block_on(async {
            let cx = Context::background();
            let nanoseconds = |since: Instant| since.elapsed().as_secs_f64() * 1e9 / CALLS as f64;
            let started = Instant::now();
            for number in 0..CALLS {
                black_box(handle.add(&cx, black_box(number), 1).await?);
            }
            let one = nanoseconds(started);
            let started = Instant::now();
            for number in 0..CALLS {
                black_box(direct.add(&cx, black_box(number), 1).await);
            }
            anyhow::Ok((one, nanoseconds(started)))
        })?;
        if round > 0 {
            through.push(one);
            bare.push(other);
        }
    }
    let added = through.iter().zip(&bare).map(|(one, other)| one - other);
    report.alone(
        "local call through a handle, over a boxed future",
        "ns",
        added.collect(),
        Target::AtMost(20.0),
    );
    report.against(
        "local call through a handle",
        "ns",
        through,
        ("a boxed future", bare),
        Target::Shown,
    );
    Ok(report)
}
