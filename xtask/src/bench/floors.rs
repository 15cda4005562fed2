//! What this machine can do at best: the limits that figures are compared with.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::pty::Pty;

/// A command that writes 64 MiB of short lines.
pub(super) const OUTPUT_COMMAND: &str = "yes 0123456789abcdef | head -c 67108864";
pub(super) const OUTPUT_MIB: f64 = 64.0;

/// The size of a bare request's body, in bytes: what a model request of a short session has.
const REQUEST_BODY: usize = 8 * 1024;

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Milliseconds for `sh -c true` from its start to its end.
pub(super) fn spawn() -> Result<f64> {
    let started = Instant::now();
    let status = Command::new("sh")
        .args(["-c", "true"])
        .stdin(Stdio::null())
        .status()
        .context("start `sh -c true`")?;
    let taken = milliseconds(started);
    if !status.success() {
        bail!("`sh -c true` ended with {status}");
    }
    Ok(taken)
}

/// A peer that answers each request on one open connection as soon as it has read it.
pub(super) struct Echo {
    stream: TcpStream,
    request: Vec<u8>,
}

impl Echo {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen on loopback")?;
        let address = listener.local_addr().context("tell the port")?;
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {REQUEST_BODY}\r\n\r\n");
        let mut request = head.into_bytes();
        request.resize(request.len() + REQUEST_BODY, b'x');
        let length = request.len();
        // Ends when the measuring side closes the connection.
        std::thread::spawn(move || -> Result<()> {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let mut buffer = vec![0; length];
            while stream.read_exact(&mut buffer).is_ok() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")?;
            }
            Ok(())
        });
        let stream = TcpStream::connect(address).context("connect on loopback")?;
        stream.set_nodelay(true).context("turn batching off")?;
        Ok(Self { stream, request })
    }

    /// Milliseconds for one bare request and its answer.
    pub(super) fn request(&mut self) -> Result<f64> {
        let started = Instant::now();
        self.stream
            .write_all(&self.request)
            .context("send a bare request")?;
        let mut answer = [0; 256];
        let length = self
            .stream
            .read(&mut answer)
            .context("read a bare answer")?;
        if length == 0 {
            bail!("the bare peer closed the connection");
        }
        Ok(milliseconds(started))
    }
}

/// Milliseconds for one appended block to reach the disk.
pub(super) fn sync(directory: &Path) -> Result<f64> {
    let path = directory.join("sync");
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("create {}", path.display()))?;
    let started = Instant::now();
    file.write_all(&[0; 4096]).context("write a block")?;
    file.sync_data().context("sync a block")?;
    Ok(milliseconds(started))
}

/// Seconds for [`OUTPUT_COMMAND`] through a bare pipe into a file.
pub(super) fn pipe(directory: &Path) -> Result<f64> {
    let path = directory.join("piped");
    let mut source = Command::new("sh")
        .args(["-c", OUTPUT_COMMAND])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the command that writes")?;
    let started = Instant::now();
    let mut pipe = source
        .stdout
        .take()
        .context("the command's output is piped")?;
    let mut file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = pipe.read(&mut buffer).context("read the pipe")?;
        let Some(piece) = buffer.get(..length).filter(|piece| !piece.is_empty()) else {
            break;
        };
        file.write_all(piece).context("write the file")?;
    }
    source.wait().context("wait for the command that writes")?;
    Ok(started.elapsed().as_secs_f64())
}

/// Seconds for the bare read of one streamed answer, from the request to the last byte, and how
/// many bytes it has.
pub(super) fn stream(port: u16) -> Result<(f64, usize)> {
    let body = r#"{"model":"scripted","stream":true,"messages":[{"role":"user","content":"go"}]}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let started = Instant::now();
    let mut stream =
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("connect to the model")?;
    stream
        .write_all(request.as_bytes())
        .context("send the request")?;
    let mut buffer = vec![0; 64 * 1024];
    let (mut total, mut tail) = (0, Vec::new());
    loop {
        let length = stream.read(&mut buffer).context("read the answer")?;
        total += length;
        tail.extend_from_slice(buffer.get(..length).unwrap_or_default());
        tail.drain(..tail.len().saturating_sub(5));
        if length == 0 || tail == b"0\r\n\r\n" {
            return Ok((started.elapsed().as_secs_f64(), total));
        }
    }
}

/// Milliseconds from each key to its echo by `cat` in a raw terminal.
pub(super) fn cat_echoes(keys: &[&str], pause: Duration) -> Result<Vec<f64>> {
    let mut pty = Pty::start(Command::new("cat"), true)?;
    // The first key also waits for `cat` to start.
    pty.echoes(&["!"], pause)?;
    pty.echoes(keys, pause)
}
