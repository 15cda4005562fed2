//! A session in a scratch directory with a host that remembers what it was told.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bezel_context::{Context, TaskScope};
use bezel_permissions_contract::MayRead;
use bezel_session_types::{
    InvocationId, MemoError, OperationId, Progress, ResultContent, SessionId, Tool, ToolError,
    ToolHost, ToolInvocation, ToolOutput,
};
use bezel_tools_contract::ToolDetails;
use bezel_tools_session::{Environment, SearchLimits, ToolShared, tools};
use serde_json::Value;
use tempfile::TempDir;

/// A session whose directory is empty.
pub struct Session {
    scratch: TempDir,
    pub id: SessionId,
    pub shared: ToolShared,
    tools: HashMap<&'static str, Arc<dyn Tool>>,
    pub host: Arc<Host>,
    invocations: AtomicU64,
    // Keeps background commands alive; dropped with the session.
    _scope: TaskScope,
}

/// What the harness offers, recorded.
pub struct Host {
    directory: PathBuf,
    output: PathBuf,
    pub progress: Mutex<Vec<Progress>>,
    told: tokio::sync::Notify,
    memos: Mutex<HashMap<String, Value>>,
}

impl ToolHost for Host {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn progress(&self, progress: Progress) {
        self.progress.lock().unwrap().push(progress);
        self.told.notify_waiters();
    }

    fn output_file(&self, invocation: &InvocationId) -> PathBuf {
        self.output.join(format!("{invocation}.txt"))
    }

    fn memo(&self, name: &str) -> Result<Option<Value>, MemoError> {
        Ok(self.memos.lock().unwrap().get(name).cloned())
    }

    fn set_memo(&self, name: &str, value: Option<&Value>) -> Result<(), MemoError> {
        let mut memos = self.memos.lock().unwrap();
        match value {
            Some(value) => memos.insert(name.to_owned(), value.clone()),
            None => memos.remove(name),
        };
        Ok(())
    }
}

impl Host {
    /// The output shown so far.
    pub fn appended(&self) -> String {
        let progress = self.progress.lock().unwrap();
        let parts = progress.iter().filter_map(|progress| match progress {
            Progress::Append(text) => Some(text.as_str()),
            Progress::Details(_) => None,
        });
        parts.collect()
    }

    /// Waits until the output shown so far fulfils `condition`.
    pub async fn until(&self, condition: impl Fn(&str) -> bool) {
        loop {
            let told = self.told.notified();
            if condition(&self.appended()) {
                return;
            }
            told.await;
        }
    }
}

impl Session {
    pub fn new() -> Self {
        Self::with_variables(&[])
    }

    /// With these variables beside those that a command cannot do without.
    pub fn with_variables(variables: &[(&str, &str)]) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let scratch = tempfile::tempdir().expect("temporary directory");
        let root = scratch.path().canonicalize().expect("real path");
        let home = root.join("home");
        let directory = root.join("project");
        std::fs::create_dir_all(&home).expect("home");
        std::fs::create_dir_all(&directory).expect("project");
        let own = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let usual = [
            ("PATH".into(), path),
            ("HOME".into(), home.into_os_string()),
        ];
        let environment = Environment::new(usual.into_iter().chain(own), ["LOCAL_KEY".to_owned()]);
        let scope = TaskScope::new();
        let shared = ToolShared::new(Arc::new(environment), scope.spawner());
        let host = Host {
            directory,
            output: root.join("output"),
            progress: Mutex::default(),
            told: Default::default(),
            memos: Mutex::default(),
        };
        Session {
            scratch,
            id: SessionId::generate(),
            tools: tools(shared.clone()).into_iter().collect(),
            shared,
            host: Arc::new(host),
            invocations: AtomicU64::new(0),
            _scope: scope,
        }
    }

    /// Searches look only into what `may_read` is true of.
    pub fn limit_searches(&mut self, may_read: impl Fn(&Path) -> bool + Send + Sync + 'static) {
        let may_read: Arc<MayRead> = Arc::new(may_read);
        self.shared.search = SearchLimits::new(move |_| Arc::clone(&may_read));
        self.tools = tools(self.shared.clone()).into_iter().collect();
    }

    /// The session's directory.
    pub fn root(&self) -> &Path {
        &self.host.directory
    }

    /// The directory above, with `home` in it.
    pub fn above(&self) -> PathBuf {
        self.scratch.path().canonicalize().expect("real path")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Makes a file with its directories.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(&path, content).expect("file");
        path
    }

    pub fn content(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).expect("file")).expect("text")
    }

    /// Names in the session's directory, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root()).expect("directory");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    pub fn tool(&self, name: &str) -> &Arc<dyn Tool> {
        &self.tools[name]
    }

    pub fn invocation(&self, name: &str, arguments: Value) -> ToolInvocation {
        let number = self.invocations.fetch_add(1, Ordering::Relaxed);
        ToolInvocation {
            invocation_id: InvocationId::new(format!("call-{number}-{}", self.id)),
            operation_id: OperationId::new("operation"),
            session_id: self.id.clone(),
            tool: name.into(),
            arguments: Arc::new(arguments),
            accesses: None,
            host: Arc::clone(&self.host) as Arc<dyn ToolHost>,
        }
    }

    /// One call as the harness makes it: the arguments are checked against the schema first.
    pub async fn call_in(
        &self,
        cx: Context,
        name: &str,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let tool = self.tool(name);
        let schema = &tool.spec().parameters;
        if let Err(error) = jsonschema::validate(schema, &arguments) {
            panic!("the arguments of {name} do not fit its schema: {error}");
        }
        tool.execute(cx, self.invocation(name, arguments)).await
    }

    pub async fn call(&self, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        self.call_in(Context::background(), name, arguments).await
    }

    /// The text of a call that must succeed.
    pub async fn text(&self, name: &str, arguments: Value) -> String {
        text(
            &self
                .call(name, arguments)
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}")),
        )
    }

    /// The message of a call that must fail.
    pub async fn error(&self, name: &str, arguments: Value) -> String {
        match self.call(name, arguments).await {
            Err(ToolError::Failed { message, .. }) => message,
            other => panic!("{name} should have failed: {other:?}"),
        }
    }

    /// The details of a call that must succeed.
    pub async fn details(&self, name: &str, arguments: Value) -> ToolDetails {
        details(
            &self
                .call(name, arguments)
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}")),
        )
    }
}

pub fn text(output: &ToolOutput) -> String {
    let parts = output.content.iter().filter_map(|part| match part {
        ResultContent::Text { text } => Some(text.as_str()),
        ResultContent::Image(_) => None,
    });
    parts.collect::<Vec<_>>().join("\n")
}

pub fn details(output: &ToolOutput) -> ToolDetails {
    ToolDetails::from_value(&output.details)
        .unwrap_or_else(|| panic!("no details: {}", output.details))
}
