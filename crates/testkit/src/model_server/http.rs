//! The little of HTTP/1.1 that the server needs: request heads, bodies and chunked answers.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What ends a chunked answer.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

const MAX_HEADERS: usize = 96;

/// A request as it came in.
pub(super) struct Request {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn path(&self) -> &str {
        self.target
            .split_once('?')
            .map_or(self.target.as_str(), |(path, _)| path)
    }
}

/// Reads one request; `None` when the client has closed between requests. What was read too much stays
/// in `input`; a client that waits to be told to go on is told so.
pub(super) async fn read_request(
    reader: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    writer: &mut (impl AsyncWrite + Unpin),
) -> io::Result<Option<Request>> {
    let (head, mut request) = loop {
        if let Some(parsed) = parse_head(input)? {
            break parsed;
        }
        if reader.read_buf(input).await? == 0 {
            return if input.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
    };
    input.advance(head);
    if request
        .header("expect")
        .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    if request
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    {
        request.body = read_chunks(reader, input).await?;
    } else if let Some(length) = request.header("content-length") {
        let length = length
            .trim()
            .parse()
            .map_err(|_| invalid("content-length"))?;
        request.body = take(reader, input, length).await?;
    }
    Ok(Some(request))
}

fn parse_head(input: &[u8]) -> io::Result<Option<(usize, Request)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(input).map_err(|_| invalid("request head"))? {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(length) => length,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let request = Request {
        method: parsed.method.unwrap_or_default().into(),
        target: parsed.path.unwrap_or_default().into(),
        headers: parsed
            .headers
            .iter()
            .map(|header| (header.name.to_ascii_lowercase(), text(header.value)))
            .collect(),
        body: Vec::new(),
    };
    Ok(Some((length, request)))
}

async fn read_chunks(
    reader: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader, input).await?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| invalid("chunk size"))?;
        if size == 0 {
            while !read_line(reader, input).await?.is_empty() {}
            return Ok(body);
        }
        body.extend(take(reader, input, size).await?);
        read_line(reader, input).await?;
    }
}

async fn read_line(
    reader: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
) -> io::Result<String> {
    loop {
        if let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") {
            let line = String::from_utf8_lossy(&input[..end]).into_owned();
            input.advance(end + 2);
            return Ok(line);
        }
        if reader.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn take(
    reader: &mut (impl AsyncRead + Unpin),
    input: &mut BytesMut,
    length: usize,
) -> io::Result<Vec<u8>> {
    while input.len() < length {
        if reader.read_buf(input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(input.split_to(length).to_vec())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("invalid {what}"))
}

/// Appends `data` as one chunk.
pub(super) fn chunk(bytes: &mut Vec<u8>, data: &[u8]) {
    bytes.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\r\n");
}

/// Writes the head of a chunked answer.
pub(super) async fn write_stream_head(
    writer: &mut (impl AsyncWrite + Unpin),
    content_type: &str,
    number: usize,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncache-control: no-cache\r\nx-request-id: req_{number}\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    writer.write_all(head.as_bytes()).await
}

/// Writes a whole answer.
pub(super) async fn write_whole(
    writer: &mut (impl AsyncWrite + Unpin),
    status: u16,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<()> {
    let mut answer = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    answer.push_str(&format!(
        "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    writer.write_all(answer.as_bytes()).await
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Site is overloaded",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> io::Result<Option<Request>> {
        let mut reader = bytes;
        read_request(&mut reader, &mut BytesMut::new(), &mut tokio::io::sink()).await
    }

    #[tokio::test]
    async fn bodies_come_by_length_and_in_chunks() {
        let request = read(b"POST /v1/x?y=1 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (request.path(), request.body.as_slice()),
            ("/v1/x", &b"abc"[..])
        );
        let chunked =
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
        assert_eq!(read(chunked).await.unwrap().unwrap().body, b"abc");
        assert!(read(b"").await.unwrap().is_none());
        assert!(
            read(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc")
                .await
                .is_err()
        );
    }
}
