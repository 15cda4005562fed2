//! A way to a server that takes its time, so that round trips can be counted.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::process::serve_until_unneeded;

/// Passes everything on, each piece `milliseconds` after it came.
pub fn relay(socket: &str, upstream: &str, milliseconds: u64) -> Result<()> {
    let listener = UnixListener::bind(socket).context("listen")?;
    let upstream = upstream.to_owned();
    let delay = Duration::from_millis(milliseconds);
    std::thread::spawn(move || -> Result<()> {
        loop {
            let (client, _) = listener.accept()?;
            let server = UnixStream::connect(&upstream)?;
            pass(client.try_clone()?, server.try_clone()?, delay);
            pass(server, client, delay);
        }
    });
    serve_until_unneeded()
}

fn pass(mut from: UnixStream, mut to: UnixStream, delay: Duration) {
    let (sender, pieces) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || -> Result<()> {
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let length = from.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            sender.send((Instant::now() + delay, buffer[..length].to_vec()))?;
        }
    });
    std::thread::spawn(move || -> Result<()> {
        for (due, piece) in pieces {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            to.write_all(&piece)?;
        }
        to.shutdown(std::net::Shutdown::Write)?;
        Ok(())
    });
}
