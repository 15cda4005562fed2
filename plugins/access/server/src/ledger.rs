//! Codes and clients as one, and the ways in which they change.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bezel_access_contract::AccessState;
use bezel_api_server::{Attempt, Connections, Granted, HostStatus, IssuedCredential, Verdict};
use bezel_context::{Context, CredentialId, Principal, Spawner};
use bezel_rpc::StateCell;
use jiff::{SignedDuration, Timestamp};

use crate::attempts::Attempts;
use crate::clients::{Client, Clients, Grant, Known};
use crate::codes::{Codes, NoCode};
use crate::file::{self, FileError};
use crate::secret::{self, Fingerprint, Shown};

/// How far apart two recorded uses of a token are at least.
const USE_INTERVAL: SignedDuration = SignedDuration::from_secs(60);
/// For so long after a revocation, a connection may still come that was let in before it.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// Who was given access, and how it is given and taken back.
#[derive(Clone)]
pub(crate) struct Ledger(Arc<Shared>);

/// What a ledger reaches.
pub(crate) struct Reach {
    /// Where the clients are kept; none for as long as the server lives.
    pub(crate) file: Option<PathBuf>,
    /// For the time.
    pub(crate) status: HostStatus,
    /// For those who lose their access.
    pub(crate) connections: Connections,
    /// For what nobody waits for.
    pub(crate) spawner: Spawner,
}

struct Shared {
    memory: Arc<Mutex<Memory>>,
    /// One write at a time, each of all that is known by then.
    line: tokio::sync::Mutex<()>,
    state: StateCell<AccessState>,
    reach: Reach,
}

// A plain mutex: held to look up or change, never across an await.
#[derive(Default)]
struct Memory {
    clients: Clients,
    codes: Codes,
    attempts: Attempts,
}

impl Ledger {
    pub(crate) fn new(clients: Clients, reach: Reach) -> Self {
        let memory = Arc::new(Mutex::new(Memory {
            clients,
            ..Memory::default()
        }));
        let seen = Arc::clone(&memory);
        let project = move |all: &AccessState, principal: &Principal| {
            let mut within = all.clone();
            let memory = lock(&seen);
            within.clients.retain(|shown| {
                let client = memory.clients.get(&shown.id);
                client.is_some_and(|client| client.grant.is_within(principal))
            });
            within
        };
        let ledger = Ledger(Arc::new(Shared {
            memory,
            line: tokio::sync::Mutex::default(),
            state: StateCell::projected(AccessState::default(), project),
            reach,
        }));
        ledger.publish(&Context::background());
        ledger
    }

    /// The clients, each principal its own view.
    pub(crate) fn state(&self) -> &StateCell<AccessState> {
        &self.0.state
    }

    /// A new code and until when it works; none where there are too many.
    pub(crate) fn make_code(&self, grant: Grant) -> Option<(String, Timestamp)> {
        let (code, fingerprint) = secret::new_code();
        let expires_at = self.lock().codes.add(fingerprint, grant, self.now())?;
        Some((code, expires_at))
    }

    /// The workspaces that a client is bound to, with their names.
    pub(crate) fn client(&self, id: &CredentialId) -> Option<Client> {
        self.lock().clients.get(id).cloned()
    }

    /// Judges what a connection shows.
    pub(crate) async fn judge(&self, attempt: Attempt) -> Verdict {
        let Some(shown) = attempt.bearer() else {
            return Verdict::Unrecognised;
        };
        match secret::read(shown) {
            Shown::Token(token) => self.by_token(&token, attempt.address()),
            Shown::Code(code) => self.redeem(&code, attempt.address()).await,
            Shown::Other => Verdict::Unrecognised,
        }
    }

    /// A right token is never counted and never held up: nobody guesses one.
    fn by_token(&self, token: &Fingerprint, from: Option<IpAddr>) -> Verdict {
        let now = self.now();
        let mut memory = self.lock();
        let revoked = match memory.clients.by_token(token) {
            Known::Paired(client) => {
                let last = client.last_used_at;
                let record = last.is_none_or(|last| now.duration_since(last) >= USE_INTERVAL);
                if record {
                    client.last_used_at = Some(now);
                }
                let granted = granted(client.id.clone(), &client.grant, None);
                drop(memory);
                return self.used(granted, record);
            }
            Known::Revoked => true,
            Known::No => false,
        };
        if !memory.attempts.allows(from, now) {
            return too_many();
        }
        memory.attempts.wrong(from, now);
        match revoked {
            true => refused("this client's access was taken back; pair again with a new code"),
            false => refused("this server does not know the token; pair again with a new code"),
        }
    }

    fn used(&self, granted: Granted, record: bool) -> Verdict {
        if record {
            self.publish(&Context::background());
            let ledger = self.clone();
            // Worth no wait: the next use is recorded again.
            drop(self.0.reach.spawner.spawn("record use", async move {
                if let Err(error) = ledger.save().await {
                    tracing::warn!(%error, "the last use of a paired client is not on record");
                }
            }));
        }
        Verdict::Granted(granted)
    }

    /// Trades a code for a token. The client is on disk before it is told.
    async fn redeem(&self, code: &Fingerprint, from: Option<IpAddr>) -> Verdict {
        let now = self.now();
        let taken = {
            let mut memory = self.lock();
            if !memory.attempts.allows(from, now) {
                return too_many();
            }
            match memory.codes.take(code, now) {
                Ok(grant) => {
                    let (token, fingerprint) = secret::new_token();
                    let id = memory.clients.add(grant.clone(), fingerprint, now);
                    Ok((id, grant, token))
                }
                Err(reason) => {
                    memory.attempts.wrong(from, now);
                    Err(reason)
                }
            }
        };
        let (id, grant, token) = match taken {
            Ok(taken) => taken,
            Err(NoCode::Unknown) => {
                return refused(
                    "the pairing code is wrong; look again, or make a new one with `bezel access pair`",
                );
            }
            Err(NoCode::Expired) => {
                return refused(
                    "the pairing code has expired; make a new one with `bezel access pair`",
                );
            }
            Err(NoCode::Used) => {
                return refused(
                    "the pairing code was used already; make a new one with `bezel access pair`",
                );
            }
        };
        if let Err(error) = self.save().await {
            tracing::error!(%error, "a client could not be paired");
            let mut memory = self.lock();
            memory.clients.paired.retain(|client| client.id != id);
            memory.codes.give_back(code);
            return refused("the server cannot save who is paired; its log says why");
        }
        tracing::info!(client = %id, "a client was paired");
        self.publish(&Context::background());
        Verdict::Granted(granted(id, &grant, Some(IssuedCredential::new(token))))
    }

    /// Takes back a client's access and that of all whom it let in; none where `principal` may not.
    pub(crate) async fn revoke(
        &self,
        cx: &Context,
        principal: &Principal,
        id: &CredentialId,
    ) -> Result<Option<Vec<CredentialId>>, FileError> {
        let gone = {
            let mut memory = self.lock();
            let client = memory.clients.get(id);
            if !client.is_some_and(|client| client.grant.is_within(principal)) {
                return Ok(None);
            }
            let gone = memory.clients.revoke(id, self.now());
            memory.codes.forget_of(&gone);
            gone
        };
        // First in memory and for those who are connected: that holds whatever the disk does.
        self.end_revoked();
        self.publish(cx);
        self.save().await?;
        tracing::info!(client = %id, "a client's access was taken back");
        Ok(Some(gone))
    }

    /// Ends the connections of those who have lost their access.
    pub(crate) fn end_revoked(&self) {
        let now = self.now();
        let revoked: Vec<CredentialId> = self
            .lock()
            .clients
            .revoked
            .iter()
            .rev()
            .take_while(|revoked| now.duration_since(revoked.revoked_at) < LATE)
            .map(|revoked| revoked.id.clone())
            .collect();
        if revoked.is_empty() {
            return;
        }
        let connections = &self.0.reach.connections;
        for principal in connections.principals() {
            if principal
                .credential
                .is_some_and(|shown| revoked.contains(&shown))
            {
                connections.end(&principal.client, "this client's access was taken back");
            }
        }
    }

    fn publish(&self, cx: &Context) {
        let clients = self
            .lock()
            .clients
            .paired
            .iter()
            .rev()
            .map(Client::shown)
            .collect();
        self.0.state.set(cx, AccessState { clients });
    }

    async fn save(&self) -> Result<(), FileError> {
        let Some(file) = self.0.reach.file.clone() else {
            return Ok(());
        };
        let _line = self.0.line.lock().await;
        let clients = self.lock().clients.clone();
        match tokio::task::spawn_blocking(move || file::write(&file, clients)).await {
            Ok(written) => written,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn now(&self) -> Timestamp {
        self.0.reach.status.now()
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        lock(&self.0.memory)
    }
}

fn lock(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn granted(id: CredentialId, grant: &Grant, issued: Option<IssuedCredential>) -> Granted {
    Granted {
        owner: grant.owner.clone(),
        workspaces: grant.reach(),
        scopes: grant.scopes.clone(),
        credential: Some(id),
        issued,
    }
}

fn refused(text: &str) -> Verdict {
    Verdict::Refused(text.into())
}

fn too_many() -> Verdict {
    refused("there were too many wrong attempts; wait a minute, then try again")
}
