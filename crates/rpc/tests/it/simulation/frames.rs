//! What crosses the simulated network, checked frame by frame where it arrives.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use bezel_rpc::Frame;
use serde_json::Value;

use super::network::{End, Watch};

#[derive(Default, Clone)]
pub struct Frames(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// Per connection, the incarnations that are open there.
    open: HashMap<u64, HashSet<u64>>,
    pushed: usize,
    violations: Vec<String>,
}

impl Frames {
    pub fn watch(&self) -> Watch {
        let frames = self.clone();
        Arc::new(move |connection, end, frame| frames.see(connection, end, frame))
    }

    pub fn forget(&self) {
        self.0.lock().expect("lock").pushed = 0;
    }

    /// How many frames of subscriptions arrived anywhere.
    pub fn pushed(&self) -> usize {
        self.0.lock().expect("lock").pushed
    }

    fn see(&self, connection: u64, end: End, frame: &Frame) {
        let header: Value = serde_json::from_slice(&frame.header).expect("a header is JSON");
        let kind = header["k"].as_str().expect("a kind");
        let mut seen = self.0.lock().expect("lock");
        seen.pushed += usize::from(matches!(kind, "snapshot" | "state" | "event"));
        if end == End::Server {
            return;
        }
        let open = seen.open.entry(connection).or_default();
        let route = header["n"].as_u64();
        let fits = match (kind, route) {
            ("attachment", route) => {
                *open = route.into_iter().collect();
                true
            }
            ("attach", Some(route)) => open.insert(route),
            ("detach", Some(route)) => open.remove(&route),
            (_, Some(route)) => open.contains(&route),
            (_, None) => true,
        };
        if !fits {
            seen.violations.push(header.to_string());
        }
    }

    /// Frames that came under an attachment that was not open where they arrived.
    pub fn violations(&self) -> Vec<String> {
        self.0.lock().expect("lock").violations.clone()
    }
}
