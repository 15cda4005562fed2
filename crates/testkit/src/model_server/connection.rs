//! One connection: requests in, answers out, and an eye on whether the client hangs up.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::Shared;
use super::encode::{self, Encode};
use super::http::{self, Request};
use super::record::RecordedRequest;
use super::routes::{self, Route};
use crate::script::{Answer, Refusal, Step};
use crate::{ModelCall, Turn, WireFormat};

/// Whether the connection can serve another request.
#[derive(PartialEq)]
enum After {
    Open,
    Closed,
}

/// Serves a connection until the client or a script ends it. Errors of one client are nobody else's.
pub(super) async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let (mut reader, mut writer) = stream.split();
    let mut input = BytesMut::with_capacity(16 * 1024);
    loop {
        let Ok(Some(request)) = http::read_request(&mut reader, &mut input, &mut writer).await
        else {
            return;
        };
        let route = routes::route(&request);
        let call = match &route {
            Route::Model(_, call) => Some(ModelCall::clone(call)),
            _ => None,
        };
        let number = shared.records.add(RecordedRequest::new(&request, call));
        let outcome = tokio::select! {
            biased;
            outcome = answer(&mut writer, &shared, &request, route, number) => outcome,
            () = hung_up(&mut reader, &mut input) => Err(io::ErrorKind::ConnectionReset.into()),
        };
        match outcome {
            Ok(After::Open) => shared
                .records
                .update(number, |record| record.answered = Some(Instant::now())),
            Ok(After::Closed) => return,
            Err(_) => {
                return shared
                    .records
                    .update(number, |record| record.closed_early = true);
            }
        }
    }
}

/// Ends when the client has closed; what it sends meanwhile is kept for the next request.
async fn hung_up(reader: &mut ReadHalf<'_>, input: &mut BytesMut) {
    while matches!(reader.read_buf(input).await, Ok(read) if read > 0) {}
}

async fn answer(
    writer: &mut WriteHalf<'_>,
    shared: &Shared,
    request: &Request,
    route: Route,
    number: usize,
) -> io::Result<After> {
    let (format, call) = match route {
        Route::Model(format, call) => (format, call),
        Route::Models(format) => {
            if !has_key(shared, request) {
                return whole(writer, encode::unauthorised(format), None).await;
            }
            return whole(
                writer,
                (200, routes::models(format, &shared.script).to_string()),
                None,
            )
            .await;
        }
        Route::Unknown => {
            let body =
                r#"{"error":{"message":"Not found","type":"invalid_request_error","code":null}}"#;
            return whole(writer, (404, body.into()), None).await;
        }
    };
    if !has_key(shared, request) {
        return whole(writer, encode::unauthorised(format), None).await;
    }
    let models = shared.script.models();
    if !models.is_empty() && !models.contains(&call.model) {
        return whole(writer, encode::unknown_model(format, &call.model), None).await;
    }
    match shared.script.next(&call) {
        Turn::Refuse(refusal) => refuse(writer, format, &refusal).await,
        Turn::Answer(answer) if !call.stream => {
            let body = encode::whole(format, &call.model, number, &answer);
            whole(writer, (200, body.to_string()), None).await
        }
        Turn::Answer(answer) => {
            http::write_stream_head(writer, encode::content_type(format), number).await?;
            stream(
                writer,
                format,
                encode::encoder(format, &call.model, number),
                number,
                &answer,
            )
            .await
        }
        Turn::Flood(flood) => {
            let writes = shared.flood(format, &call.model, number, &flood);
            http::write_stream_head(writer, encode::content_type(format), number).await?;
            for bytes in writes.iter() {
                writer.write_all(bytes).await?;
            }
            Ok(After::Open)
        }
    }
}

fn has_key(shared: &Shared, request: &Request) -> bool {
    shared
        .script
        .key()
        .is_none_or(|key| routes::key_of(request) == Some(key))
}

async fn refuse(
    writer: &mut WriteHalf<'_>,
    format: WireFormat,
    refusal: &Refusal,
) -> io::Result<After> {
    whole(
        writer,
        encode::refusal(format, refusal),
        refusal.retry_after.as_deref(),
    )
    .await
}

async fn whole(
    writer: &mut WriteHalf<'_>,
    (status, body): (u16, String),
    retry_after: Option<&str>,
) -> io::Result<After> {
    let retry_after = retry_after.map(|value| ("retry-after", value));
    http::write_whole(writer, status, retry_after.as_slice(), &body).await?;
    Ok(After::Open)
}

async fn stream(
    writer: &mut WriteHalf<'_>,
    format: WireFormat,
    mut encoder: Box<dyn Encode>,
    number: usize,
    answer: &Answer,
) -> io::Result<After> {
    let usage = answer.costs();
    send(writer, encoder.start(&usage)).await?;
    let mut calls = 0;
    for step in &answer.steps {
        let frames = match step {
            Step::Text(text) => encoder.text(text),
            Step::Thinking { text, signature } => encoder.thinking(text, signature.as_deref()),
            Step::ToolCall(call) => {
                calls += 1;
                encoder.tool_call(&encode::call_id(number, call, calls - 1), call)
            }
            Step::DelayMs(milliseconds) => {
                tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
                Vec::new()
            }
            Step::Malformed => vec![encode::malformed(format)],
            Step::Cut => return Ok(After::Closed),
            Step::Stall => std::future::pending().await,
            Step::Fault(fault) => {
                send(writer, encoder.fault(*fault)).await?;
                writer.write_all(http::LAST_CHUNK).await?;
                return Ok(After::Open);
            }
        };
        send(writer, frames).await?;
    }
    send(writer, encoder.finish(answer.ends_with(), &usage)).await?;
    writer.write_all(http::LAST_CHUNK).await?;
    Ok(After::Open)
}

/// One chunk and one write an event, as servers that flush each event do.
async fn send(writer: &mut WriteHalf<'_>, frames: Vec<String>) -> io::Result<()> {
    for frame in frames {
        let mut bytes = Vec::with_capacity(frame.len() + 16);
        http::chunk(&mut bytes, frame.as_bytes());
        writer.write_all(&bytes).await?;
    }
    Ok(())
}
