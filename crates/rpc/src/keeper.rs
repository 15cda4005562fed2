//! The task behind a link: attempts, retries, and what each frame of a server does.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bezel_context::{Context, Spawner};

use crate::connection::{
    AttachmentPayload, AttachmentState, Connect, ConnectError, ConnectionState,
};
use crate::consumer::{Line, Reach};
use crate::control::{answer_ping, goaway_reason, read, send_goaway, violation};
use crate::descriptor::ServiceSummary;
use crate::error::{ErrorCode, RpcError};
use crate::handshake::{
    Credential, Hello, HelloPayload, Refusal, Role, WelcomePayload, control, read_welcome,
};
use crate::link::{Shared, no_connection, nothing_attached};
use crate::provider::{AttachPayload, Provider, ServiceTable, Told, server_principal};
use crate::sync::lock;
use crate::wire::drive::{Connection, End};
use crate::wire::{Frame, Header, Kind};

/// One attempt may take this long, handshake included.
const ATTEMPT: Duration = Duration::from_secs(10);
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(5);

/// The task behind a link.
pub(crate) struct Keeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) hello: Hello,
    pub(crate) provides: ServiceTable,
    pub(crate) spawner: Spawner,
}

/// A connection after its handshake.
pub(crate) struct Established {
    connection: Connection,
    pub(crate) welcome: WelcomePayload,
    /// What the server was told of the table.
    told: Told,
}

impl Keeper {
    /// Runs one connection and makes no other after it.
    pub(crate) async fn run_once(self, cx: &Context, established: Established) {
        let end = self.serve(cx, established).await;
        self.show(ConnectionState::Disconnected {
            since: now(),
            reason: end.map_or_else(|| "the link was stopped".to_owned(), |end| end.to_string()),
            retry_at: None,
        });
    }

    pub(crate) async fn run(self, cx: &Context) {
        let mut attempt = 0;
        loop {
            attempt += 1;
            self.show(ConnectionState::Connecting { attempt });
            let (reason, retry) = match cx.run(self.attempt(cx)).await {
                Err(_) => break,
                Ok(Ok(established)) => {
                    attempt = 0;
                    match self.serve(cx, established).await {
                        None => break,
                        Some(end) => (end.to_string(), true),
                    }
                }
                Ok(Err(ConnectError::Refused(refusal))) => {
                    (refusal.to_string(), !refusal.is_final())
                }
                Ok(Err(error)) => (error.to_string(), true),
            };
            tracing::debug!(%reason, attempt, "no connection");
            let delay = backoff(attempt);
            let since = now();
            let retry_at =
                retry.then(|| since + u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
            self.show(ConnectionState::Disconnected {
                since,
                reason,
                retry_at,
            });
            if !retry || cx.run(tokio::time::sleep(delay)).await.is_err() {
                break;
            }
        }
        if self.shared.connection.get().is_connected() || cx.is_cancelled() {
            let reason = "the link was stopped".to_owned();
            self.show(ConnectionState::Disconnected {
                since: now(),
                reason,
                retry_at: None,
            });
        }
    }

    fn show(&self, state: ConnectionState) {
        self.shared.connection.put(state);
        self.shared.connection.announce();
    }

    pub(crate) async fn attempt(&self, cx: &Context) -> Result<Established, ConnectError> {
        let told = match self.hello.role {
            Role::Worker => Told::of_worker(&self.provides),
            _ => Told::of(&self.provides),
        };
        establish(cx, &*self.connect, self.hello.clone(), told).await
    }

    /// Runs an established connection; `None` when the link was stopped.
    async fn serve(&self, cx: &Context, established: Established) -> Option<End> {
        let Established {
            mut connection,
            welcome,
            told,
        } = established;
        let shared = &self.shared;
        let outbox = connection.outgoing.clone();
        let line = Line::new(outbox.clone(), welcome.limits);
        let provider = Provider::new(
            self.provides.clone(),
            outbox.clone(),
            self.spawner.clone(),
            welcome.limits,
            server_principal(),
            told,
        );
        provider.announce();
        *lock(&shared.client) = Some(welcome.client);
        shared.attachment.put(AttachmentState::Detached);
        shared
            .connection
            .put(ConnectionState::Connected { since: now() });
        shared
            .server
            .point(Reach::up(&line, None, &welcome.services));
        shared.attached.point(nothing_attached());
        shared.server.refollow();
        shared.attachment.announce();
        shared.connection.announce();

        let mut route = None;
        let act = |frame: Frame| self.act(&line, &provider, &mut route, &frame);
        let end = tokio::select! {
            biased;
            end = connection.run(&provider, act) => Some(end),
            _ = cx.cancelled() => None,
        };

        shared.server.point(no_connection());
        shared.attached.point(no_connection());
        line.close();
        provider.close();
        *lock(&shared.client) = None;
        let target = shared.attachment.get().target().map(str::to_owned);
        shared
            .attachment
            .put(target.map_or(AttachmentState::Detached, |target| {
                AttachmentState::Degraded { target }
            }));
        shared.server.refollow();
        shared.attached.refollow();
        shared.attachment.announce();
        if let Some(error) = end.as_ref().and_then(End::fault) {
            send_goaway(&outbox, &error);
        }
        connection.finish(Duration::from_secs(1)).await;
        end
    }

    fn act(
        &self,
        line: &Arc<Line>,
        provider: &Arc<Provider>,
        current: &mut Option<u64>,
        frame: &Frame,
    ) -> Result<(), End> {
        let header = Header::parse(&frame.header).map_err(|error| violation(error.to_string()))?;
        let payload = &frame.payload;
        match header.kind {
            Kind::Ok | Kind::Err => line.reply(&header, payload.clone()),
            Kind::Snapshot | Kind::State | Kind::Event | Kind::Closed => {
                line.deliver(&header, payload)
            }
            Kind::Services => {
                let services: Vec<ServiceSummary> = read(payload)?;
                match header.route {
                    None => self.shared.server.set_services(&services),
                    Some(route) if self.shared.attached.is_route(route) => {
                        self.shared.attached.set_services(&services)
                    }
                    Some(_) => {}
                }
            }
            Kind::Attachment => self.attachment(line, current, header.route, read(payload)?),
            Kind::Attach => {
                let Some(route) = header.route else {
                    return Err(violation("attach names no incarnation"));
                };
                let AttachPayload { principal } = read(payload)?;
                provider.attach(route, principal);
            }
            Kind::Detach => {
                let Some(route) = header.route else {
                    return Err(violation("detach names no incarnation"));
                };
                provider.detach(route);
            }
            Kind::Ping => answer_ping(provider),
            Kind::Pong => {}
            Kind::Goaway => return Err(End::Goaway(goaway_reason(payload))),
            _ if provider.take(&header, payload) => {}
            kind => {
                return Err(violation(format!(
                    "a server does not send {}",
                    kind.as_str()
                )));
            }
        }
        Ok(())
    }

    fn attachment(
        &self,
        line: &Arc<Line>,
        current: &mut Option<u64>,
        route: Option<u64>,
        payload: AttachmentPayload,
    ) {
        let shared = &self.shared;
        let reach = match (&payload.state, route) {
            (AttachmentState::Attached { .. }, Some(route)) => {
                Reach::up(line, Some(route), &payload.services)
            }
            (AttachmentState::Degraded { .. }, _) => Reach::Down {
                code: ErrorCode::SessionUnavailable,
                message: "what is attached cannot be reached; wait for its restart or attach another",
            },
            (AttachmentState::Attaching { .. }, _) => Reach::Down {
                code: ErrorCode::NotAttached,
                message: "the attachment is not complete yet; wait until it is",
            },
            _ => nothing_attached(),
        };
        let ended = match payload.state {
            AttachmentState::Degraded { .. } => RpcError::new(
                ErrorCode::SessionUnavailable,
                "the attached process was lost while the call ran; whether it took effect is not known",
            ),
            _ => RpcError::new(
                ErrorCode::NotAttached,
                "the attachment ended while the call ran; whether it took effect is not known",
            ),
        };
        shared.attachment.put(payload.state);
        let previous = std::mem::replace(current, route);
        if let Some(route) = route.filter(|route| previous != Some(*route)) {
            line.open_route(route);
        }
        shared.attached.point(reach);
        if let Some(previous) = previous.filter(|previous| Some(*previous) != route) {
            line.end_route(previous, &ended);
        }
        shared.attached.refollow();
        shared.attachment.announce();
    }
}

/// One attempt to connect, its handshake included.
async fn establish(
    cx: &Context,
    connect: &dyn Connect,
    hello: Hello,
    told: Told,
) -> Result<Established, ConnectError> {
    let attempt = async {
        let mut connection = Connection::new(connect.connect(cx).await?);
        let hello = HelloPayload {
            protocol: crate::PROTOCOL,
            hello,
            services: told.services,
            active: told.active,
        };
        if connection
            .outgoing
            .send(control(Kind::Hello, &hello))
            .is_err()
        {
            return Err(ConnectError::Closed);
        }
        let frame = connection.recv().await?.ok_or(ConnectError::Closed)?;
        Ok(Established {
            welcome: read_welcome(&frame)?,
            connection,
            told: Told {
                services: hello.services,
                active: hello.active,
            },
        })
    };
    tokio::time::timeout(ATTEMPT, attempt)
        .await
        .unwrap_or(Err(ConnectError::TimedOut(ATTEMPT)))
}

/// Connects once, to trade a credential that is used up with that for the lasting one that the welcome
/// brings.
pub async fn exchange(
    cx: &Context,
    connect: &dyn Connect,
    hello: Hello,
) -> Result<Credential, ConnectError> {
    let established = cx
        .run(establish(cx, connect, hello, Told::default()))
        .await??;
    established.connection.finish(Duration::from_secs(1)).await;
    established.welcome.credential.ok_or_else(|| {
        let text = "the server knows this credential as a lasting one and gives no other for it";
        ConnectError::Refused(Refusal::new(ErrorCode::Protocol, text))
    })
}

fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Doubles per attempt up to five seconds; each delay is spread over its upper half.
fn backoff(attempt: u32) -> Duration {
    let full = FIRST_RETRY
        .saturating_mul(1 << attempt.saturating_sub(1).min(10))
        .min(LAST_RETRY);
    full.mul_f64(0.5 + rand::random::<f64>() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_slow_down_to_a_bound_and_are_spread() {
        for attempt in 0..40 {
            let delay = backoff(attempt);
            assert!(
                delay >= FIRST_RETRY / 2 && delay <= LAST_RETRY,
                "{attempt}: {delay:?}"
            );
        }
        assert!(backoff(30) >= LAST_RETRY / 2);
        assert_ne!(backoff(30), backoff(30));
    }
}
