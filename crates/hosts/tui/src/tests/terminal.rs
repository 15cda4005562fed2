//! The host at a real terminal: a pseudo terminal whose other end is read by a terminal emulator.

use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use bezel_api_tui::ThemeChoice;
use bezel_plugin::{Deadlines, Manifest, ManifestEntry};
use bezel_presentation::text::Role as Text;
use bezel_presentation::theme::light;
use bezel_rpc::{Credential, Hello, Role};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::net::unix::pipe;

use super::support::basics;
use crate::host::{RunningTui, TuiHost, TuiOptions};
use crate::terminal::{TerminalOptions, Tty};

/// The outer end of a pseudo terminal.
struct Outside {
    keyboard: File,
    output: pipe::Receiver,
    emulator: vt100::Parser,
    /// Everything that was written, as it was.
    raw: String,
    path: PathBuf,
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

impl Outside {
    fn new(columns: u16, rows: u16) -> Self {
        let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&outer).unwrap();
        unlockpt(&outer).unwrap();
        let path = PathBuf::from(ptsname(&outer, Vec::new()).unwrap().into_string().unwrap());
        let size = Winsize {
            ws_col: columns,
            ws_row: rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&outer, size).unwrap();
        let keyboard = File::from(outer.try_clone().unwrap());
        let outer: OwnedFd = outer;
        rustix::fs::fcntl_setfl(&outer, rustix::fs::OFlags::NONBLOCK).unwrap();
        let output = pipe::Receiver::from_file_unchecked(File::from(outer)).unwrap();
        Outside {
            keyboard,
            output,
            emulator: vt100::Parser::new(cells(rows), cells(columns), 0),
            raw: String::new(),
            path,
        }
    }

    async fn start(&self, theme: ThemeChoice) -> RunningTui {
        let options = TerminalOptions {
            theme,
            ..TerminalOptions::default()
        };
        let tty = Tty::open_at(&self.path, &options).unwrap();
        let options = TuiOptions {
            manifest: Manifest {
                plugins: vec![ManifestEntry::required("basics", "0.0.0")],
            },
            facets: vec![basics()],
            connect: crate::harness::nowhere(),
            hello: Hello {
                role: Role::Presentation,
                product_version: "0".into(),
                credential: Credential::none(),
            },
            terminal: options,
            launch: Default::default(),
            deadlines: Deadlines::default(),
        };
        TuiHost::start_on(tty, options).await.unwrap()
    }

    fn type_bytes(&mut self, bytes: &[u8]) {
        self.keyboard.write_all(bytes).unwrap();
    }

    /// Reads until what was written fits.
    async fn wait_for(&mut self, fits: impl Fn(&Outside) -> bool) {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut bytes = [0; 4096];
        while !fits(self) {
            let readable = tokio::time::timeout_at(deadline, self.output.readable()).await;
            assert!(
                readable.is_ok(),
                "never came; the screen shows:\n{}\nraw: {:?}",
                self.text(),
                self.raw
            );
            match self.output.try_read(&mut bytes) {
                Ok(length) => {
                    self.emulator.process(&bytes[..length]);
                    self.raw
                        .push_str(&String::from_utf8_lossy(&bytes[..length]));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn text(&self) -> String {
        self.emulator.screen().contents()
    }
}

// One test: a process has one terminal, and its signals.
#[tokio::test]
async fn a_real_terminal_is_taken_drawn_on_asked_resized_and_given_back() {
    let mut outside = Outside::new(80, 24);
    let slave = File::options()
        .read(true)
        .write(true)
        .open(&outside.path)
        .unwrap();
    let before = tcgetattr(&slave).unwrap();
    assert!(before.local_modes.contains(LocalModes::ICANON));
    let running = outside.start(ThemeChoice::Auto).await;

    outside
        .wait_for(|outside| outside.text().contains("main 0 [80x23]"))
        .await;
    assert!(
        !tcgetattr(&slave)
            .unwrap()
            .local_modes
            .contains(LocalModes::ICANON)
    );
    assert!(
        outside.emulator.screen().alternate_screen() && outside.emulator.screen().bracketed_paste()
    );

    // Letters, a sequence in two pieces, a paste, and a lone escape, which is not swallowed.
    outside.type_bytes("hé".as_bytes());
    outside
        .wait_for(|outside| outside.text().contains("> hé"))
        .await;
    assert_eq!(outside.emulator.screen().cursor_position(), (23, 4));
    outside.type_bytes(b"\x1b");
    outside.type_bytes(b"[200~pasted\x1b[201~");
    outside
        .wait_for(|outside| outside.text().contains("> hépasted"))
        .await;
    outside.type_bytes(b"\x10");
    outside
        .wait_for(|outside| outside.text().contains("Commands"))
        .await;
    outside.type_bytes(b"\x1b");
    outside
        .wait_for(|outside| !outside.text().contains("Commands"))
        .await;

    // It was asked for its background and its keyboard, and the answers count.
    outside
        .wait_for(|outside| {
            outside.raw.contains("\x1b]11;?\x1b\\") && outside.raw.contains("\x1b[?u")
        })
        .await;
    outside.type_bytes(b"\x1b]11;rgb:ffff/ffff/f0f0\x1b\\\x1b[?0u\x1b[?62c");
    outside
        .wait_for(|outside| outside.raw.contains("\x1b[>1u"))
        .await;
    outside.type_bytes(b"\x10");
    let accent = light().look(Text::Title).foreground.unwrap().to_rgb();
    let accent = vt100::Color::Rgb(accent.0, accent.1, accent.2);
    let title = |outside: &Outside| {
        let row = (0..24).find(|row| {
            outside
                .emulator
                .screen()
                .contents_between(*row, 0, *row, 80)
                .contains("Commands")
        })?;
        outside
            .emulator
            .screen()
            .cell(row, 6)
            .map(|cell| cell.fgcolor())
    };
    outside
        .wait_for(|outside| title(outside) == Some(accent))
        .await;
    outside.type_bytes(b"\x1b[27u");
    outside
        .wait_for(|outside| !outside.text().contains("Commands"))
        .await;

    let size = Winsize {
        ws_col: 60,
        ws_row: 10,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&slave, size).unwrap();
    outside.emulator.screen_mut().set_size(cells(10), cells(60));
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::WINCH)
        .unwrap();
    outside
        .wait_for(|outside| outside.text().contains("main 0 [60x9]"))
        .await;

    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
        .unwrap();
    let exit = running.finished().await;
    assert_eq!(exit.quit.code, 143);
    outside
        .wait_for(|outside| outside.raw.contains("\x1b[?1049l"))
        .await;
    assert!(
        !outside.emulator.screen().alternate_screen()
            && !outside.emulator.screen().bracketed_paste()
    );
    assert!(outside.raw.contains("\x1b[<u"));
    let after = tcgetattr(&slave).unwrap();
    assert_eq!(after.local_modes, before.local_modes);
    assert_eq!(after.input_modes, before.input_modes);

    // A panic while the terminal is drawn on gives it back too, and says so only then.
    crate::install_panic_hook();
    let mut tty = Tty::open_at(&outside.path, &TerminalOptions::default()).unwrap();
    crate::device::Device::enter(&mut tty).unwrap();
    outside.raw.clear();
    let panics = std::panic::AssertUnwindSafe(move || {
        let _drawn_on = tty;
        panic!("a bug while drawing");
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    outside
        .wait_for(|outside| outside.raw.contains("\x1b[?1049l"))
        .await;
    assert_eq!(tcgetattr(&slave).unwrap().local_modes, before.local_modes);
    assert!(
        !outside.raw.contains("a bug while drawing"),
        "{:?}",
        outside.raw
    );
}
