//! Starting and ending the terminal presentation.

use std::sync::Arc;
use std::time::Duration;

use bezel_api_tui::backend::{OwnerId, Registries, UiBackend};
use bezel_api_tui::{Facet, Launch, Quit, Toast, TuiContext};
use bezel_context::{Task, TaskScope};
use bezel_plugin::{
    AssembleOptions, Assembled, AssemblyError, Deadlines, FacetReport, Failure, Manifest,
    ManifestEntry, PluginId, assemble,
};
use bezel_presentation::highlight::Highlighter;
use bezel_rpc::{Connect, ConnectionState, Hello, Link, ServiceTable, State};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::device::Device;
use crate::mailbox::Mailbox;
use crate::presenter::Presenter;
use crate::screen;
use crate::stage::Stage;
use crate::terminal::{TerminalError, TerminalOptions, Tty};

/// How long tasks get to end after everything has been disposed.
const GRACE: Duration = Duration::from_secs(1);

/// What a terminal presentation is made of.
pub struct TuiOptions {
    /// Which plugins, in which order; the same for every host.
    pub manifest: Manifest,
    /// The terminal facets of this build.
    pub facets: Vec<Facet<TuiContext>>,
    /// One attempt to reach the server.
    pub connect: Arc<dyn Connect>,
    /// Who this presentation is.
    pub hello: Hello,
    /// How the terminal is used.
    pub terminal: TerminalOptions,
    /// What the person asked for.
    pub launch: Launch,
    /// How long each step of a facet may take.
    pub deadlines: Deadlines,
}

/// Why there is no presentation.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no terminal, or it cannot be used.
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    /// The facets cannot be started; the terminal has been given back.
    #[error("the terminal presentation could not be started: {0}")]
    Assembly(#[from] AssemblyError),
}

/// Starts terminal presentations.
pub struct TuiHost;

/// A presentation that runs.
pub struct RunningTui {
    assembled: Assembled,
    link: Link,
    presenter: Task<Quit>,
    stop: Option<oneshot::Sender<()>>,
    frames: watch::Receiver<u64>,
    tasks: TaskScope,
}

/// How a presentation ended.
#[derive(Debug, Default)]
pub struct TuiExit {
    /// What the person, a signal or a facet asked for.
    pub quit: Quit,
    /// Disposers that failed.
    pub failures: Vec<Failure>,
}

impl TuiHost {
    /// Takes the terminal and starts. The first frame does not wait for the server: what is typed until it
    /// can be reached is in the composer.
    pub async fn start(options: TuiOptions) -> Result<RunningTui, StartError> {
        let tty = Tty::open(&options.terminal)?;
        Ok(Self::start_on(tty, options).await?)
    }

    pub(crate) async fn start_on<D: Device>(
        device: D,
        options: TuiOptions,
    ) -> Result<RunningTui, AssemblyError> {
        let TuiOptions {
            manifest,
            facets,
            connect,
            hello,
            terminal,
            launch,
            deadlines,
        } = options;
        let tasks = TaskScope::new();
        let mailbox = Arc::new(Mailbox::default());
        let backend: Arc<dyn UiBackend> = Arc::clone(&mailbox) as Arc<dyn UiBackend>;
        let table = ServiceTable::new();
        let link = Link::start(&tasks.spawner(), connect, hello, table.clone());
        let registries = Registries::new(Arc::clone(&backend), terminal.keys.clone());
        let registries = Arc::new(registries.with_connection(link.connection()));
        let (set_up, ready) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (frames, frame_count) = watch::channel(0);
        let redraw = Arc::clone(&mailbox);
        let highlighter = Highlighter::new(move || UiBackend::redraw(&*redraw));
        let own = OwnerId::next(PluginId::new(screen::PLUGIN));
        let stage = Stage::new(
            Arc::clone(&registries),
            Arc::clone(&mailbox),
            own,
            &terminal,
            highlighter,
            Instant::now(),
        );
        let presenter = Presenter {
            stage,
            device,
            mailbox,
            options: terminal,
            ready,
            frames,
            stop: stopped,
        };
        let presenter = tasks.spawn("terminal", presenter.run());

        let (manifest, facets) = with_screen(manifest, facets);
        let (server, session, launch) = (link.server(), link.attached(), Arc::new(launch));
        let contexts = Arc::clone(&registries);
        let context = move |scope| {
            contexts.context(scope, server.clone(), session.clone(), Arc::clone(&launch))
        };
        let opened = Arc::clone(&registries);
        let before_activation = move || {
            opened.open();
            // A presenter that has ended already needs no word.
            set_up.send(()).ok();
        };
        let assembled = assemble(AssembleOptions {
            manifest,
            facets,
            table: table.clone(),
            context: Arc::new(context),
            before_activation: Box::new(before_activation),
            deadlines,
        });
        let assembled = assembled.await;
        let assembled = match assembled {
            Ok(assembled) => assembled,
            Err(error) => {
                // The terminal is given back before anybody reads the error.
                stop.send(()).ok();
                presenter.await.and_then(Result::ok);
                link.stop().await;
                tasks.shutdown(GRACE).await;
                return Err(error);
            }
        };
        table.activate();
        for problem in registries.problems() {
            tracing::warn!("{problem}");
            backend.post(bezel_api_tui::backend::Request::Toast(Toast::warning(
                problem.to_string(),
            )));
        }
        Ok(RunningTui {
            assembled,
            link,
            presenter,
            stop: Some(stop),
            frames: frame_count,
            tasks,
        })
    }
}

/// The host's own facet comes first, so that every plugin can replace what it brings.
fn with_screen(
    mut manifest: Manifest,
    mut facets: Vec<Facet<TuiContext>>,
) -> (Manifest, Vec<Facet<TuiContext>>) {
    if manifest.entry(screen::PLUGIN).is_none() {
        manifest.plugins.insert(
            0,
            ManifestEntry::required(screen::PLUGIN, env!("CARGO_PKG_VERSION")),
        );
    }
    facets.insert(0, screen::facet());
    (manifest, facets)
}

impl RunningTui {
    /// What became of every plugin of the manifest.
    pub fn report(&self) -> Vec<FacetReport> {
        self.assembled.report()
    }

    /// How the connection to the server stands.
    pub fn connection(&self) -> State<ConnectionState> {
        self.link.connection()
    }

    /// Counts the frames drawn.
    pub fn frames(&self) -> watch::Receiver<u64> {
        self.frames.clone()
    }

    /// Ends one plugin's facet; everything of it disappears from the screen.
    pub async fn remove(&mut self, plugin: &str) -> Vec<Failure> {
        self.assembled.remove(plugin).await
    }

    /// Waits until the person leaves, gives the terminal back, then disposes everything.
    pub async fn finished(mut self) -> TuiExit {
        let quit = match (&mut self.presenter).await {
            Some(Ok(quit)) => quit,
            // The task unwound; the terminal was given back on the way.
            _ => Quit {
                code: 1,
                message: "the screen failed; the log has the details".into(),
            },
        };
        let failures = self.assembled.dispose().await;
        self.link.stop().await;
        let overran = self.tasks.shutdown(GRACE).await;
        if !overran.is_empty() {
            tracing::warn!(?overran, "tasks had to be ended");
        }
        TuiExit { quit, failures }
    }

    /// Ends it as if the person had left.
    pub async fn stop(mut self) -> TuiExit {
        // One that has ended already needs no word.
        self.stop.take().and_then(|stop| stop.send(()).ok());
        self.finished().await
    }
}
