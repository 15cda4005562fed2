//! The same calls through Debian's `nats-server`, in its own text protocol.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::process::{answer_questions, ready};
use crate::samples::{Answer, Calls, latencies, microseconds, rate};

/// A running server, ended when it is dropped.
pub struct Server {
    child: Child,
    pub port: u16,
}

impl Server {
    pub fn start(program: &Path) -> Result<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
        let port = free.local_addr()?.port();
        drop(free);
        let child = Command::new(program)
            .args(["-a", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start nats-server")?;
        let server = Server { child, port };
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if started.elapsed() > Duration::from_secs(10) {
                bail!("nats-server does not listen");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    line: String,
    payload: Vec<u8>,
}

impl Connection {
    fn open(port: u16, subject: &str) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        let mut connection = Connection {
            writer: stream.try_clone()?,
            reader: BufReader::with_capacity(128 * 1024, stream),
            line: String::new(),
            payload: Vec::new(),
        };
        let hello = format!("CONNECT {{\"verbose\":false}}\r\nSUB {subject} 1\r\nPING\r\n");
        connection.writer.write_all(hello.as_bytes())?;
        while connection.line != "PONG\r\n" {
            connection.line.clear();
            connection.reader.read_line(&mut connection.line)?;
        }
        Ok(connection)
    }

    /// The next message: its answer's subject, where it asks for one. The payload is in `self.payload`.
    fn receive(&mut self) -> Result<Option<String>> {
        loop {
            self.line.clear();
            if self.reader.read_line(&mut self.line)? == 0 {
                bail!("nats-server ended");
            }
            if self.line == "PING\r\n" {
                self.writer.write_all(b"PONG\r\n")?;
                continue;
            }
            let words: Vec<&str> = self.line.split_whitespace().collect();
            let (reply, length) = match words.as_slice() {
                ["MSG", _, _, length] => (None, length),
                ["MSG", _, _, reply, length] => (Some((*reply).to_owned()), length),
                _ => bail!("nats-server said {}", self.line),
            };
            self.payload.resize(length.parse::<usize>()? + 2, 0);
            self.reader.read_exact(&mut self.payload)?;
            return Ok(reply);
        }
    }

    /// Whether another message has come already.
    fn has_more(&self) -> bool {
        !self.reader.buffer().is_empty()
    }
}

fn publish(into: &mut Vec<u8>, subject: &str, reply: &str, payload: &[u8]) {
    into.extend_from_slice(format!("PUB {subject} {reply} {}\r\n", payload.len()).as_bytes());
    into.extend_from_slice(payload);
    into.extend_from_slice(b"\r\n");
}

pub fn worker(port: u16) -> Result<()> {
    let mut connection = Connection::open(port, "echo")?;
    ready()?;
    let mut out = Vec::new();
    loop {
        let reply = connection.receive()?.context("a call wants an answer")?;
        let length = connection.payload.len() - 2;
        publish(&mut out, &reply, "", &connection.payload[..length]);
        if !connection.has_more() || out.len() > 128 * 1024 {
            connection.writer.write_all(&out)?;
            out.clear();
        }
    }
}

pub fn caller(port: u16) -> Result<()> {
    let mut connection = Connection::open(port, "answers")?;
    answer_questions(|question| call(&mut connection, Calls::parse(question)?))
}

fn call(connection: &mut Connection, calls: Calls) -> Result<Answer> {
    let payload = vec![b'x'; calls.size];
    let mut samples = Vec::with_capacity(calls.count);
    let mut out = Vec::new();
    let begun = Instant::now();
    if calls.in_flight == 1 {
        for _ in 0..calls.count {
            let started = Instant::now();
            out.clear();
            publish(&mut out, "echo", "answers", &payload);
            connection.writer.write_all(&out)?;
            connection.receive()?;
            samples.push(microseconds(started));
        }
        return Ok(latencies(samples));
    }
    let mut sent = calls.in_flight;
    for _ in 0..sent {
        publish(&mut out, "echo", "answers", &payload);
    }
    connection.writer.write_all(&out)?;
    out.clear();
    for _ in 0..calls.count {
        connection.receive()?;
        if sent < calls.count {
            publish(&mut out, "echo", "answers", &payload);
            sent += 1;
        }
        if !connection.has_more() && !out.is_empty() {
            connection.writer.write_all(&out)?;
            out.clear();
        }
    }
    Ok(rate(calls.count, begun.elapsed()))
}
