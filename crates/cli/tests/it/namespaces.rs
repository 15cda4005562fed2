//! Two machines: two network namespaces with a cable between them. It takes root and `ip` of iproute2;
//! the test command names these tests where they cannot run. And a disk of its own, in [`disk`].

mod disk;

use std::process::Command;

use crate::home::{Home, finish};
use crate::remote::Serving;

/// A machine's network; its processes begin with `ip netns exec`.
struct Machine {
    name: String,
    address: &'static str,
}

/// Both machines. Dropping them takes them, and the cable, away.
struct Cable {
    server: Machine,
    client: Machine,
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().unwrap();
    assert!(
        done.status.success(),
        "ip {arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

impl Cable {
    fn lay() -> Self {
        let machine = |which: &str, address| Machine {
            name: format!("bezel-{which}-{}", std::process::id()),
            address,
        };
        let cable = Cable {
            server: machine("s", "10.77.0.1"),
            client: machine("c", "10.77.0.2"),
        };
        let (server, client) = (&cable.server, &cable.client);
        ip(&["netns", "add", &server.name]);
        ip(&["netns", "add", &client.name]);
        let ends = [("veth0", server), ("veth1", client)];
        ip(&[
            "-n",
            &server.name,
            "link",
            "add",
            "veth0",
            "type",
            "veth",
            "peer",
            "name",
            "veth1",
            "netns",
            &client.name,
        ]);
        for (end, machine) in ends {
            ip(&[
                "-n",
                &machine.name,
                "addr",
                "add",
                &format!("{}/24", machine.address),
                "dev",
                end,
            ]);
            ip(&["-n", &machine.name, "link", "set", end, "up"]);
            ip(&["-n", &machine.name, "link", "set", "lo", "up"]);
        }
        cable
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for machine in [&self.server, &self.client] {
            let gone = Command::new("ip")
                .args(["netns", "del", &machine.name])
                .status();
            assert!(gone.unwrap().success() || std::thread::panicking());
        }
    }
}

impl Machine {
    /// The same command, on this machine.
    fn on(&self, command: &Command) -> Command {
        let mut on = Command::new("ip");
        on.args(["netns", "exec", &self.name])
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(command.get_current_dir().unwrap())
            .env_clear()
            .envs(
                command
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        on
    }
}

#[test]
fn a_client_on_another_machine_pairs_and_works_on_the_server() {
    let cable = Cable::lay();
    let (home, away) = (Home::new(), Home::new());
    let made = rcgen::generate_simple_self_signed([cable.server.address.to_owned()]).unwrap();
    let file = |name: &str| home.project().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let listen = format!("{}:0", cable.server.address);
    let serve = home.command(&[
        "serve",
        "--listen",
        &listen,
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
    ]);
    let server = Serving::spawn(cable.server.on(&serve));
    let url = server.url.clone();
    assert!(url.starts_with("https://10.77.0.1:"), "{url}");
    let client =
        |arguments: &[&str]| finish(cable.client.on(&away.command(arguments)).spawn().unwrap());
    client(&["attach", &url, "--code", &server.code, "--ca", &certificate]).succeeded();
    let project = home.project();
    let ran = client(&[
        "run",
        "--server",
        &url,
        "--cwd",
        project.to_str().unwrap(),
        "--model",
        "scripted::tour",
        "hello",
    ]);
    assert!(
        ran.succeeded().stdout.contains("I am the **tour**"),
        "{ran:#?}"
    );
    let listed = client(&["session", "list", "--server", &url, "--json"]);
    assert_eq!(listed.succeeded().stdout.matches("session_id").count(), 1);
    // What says nothing of the server's machine: its directories.
    assert!(!listed.stdout.contains(project.to_str().unwrap()));
    // From this machine, which has no cable, there is no way.
    away.run(&["session", "list", "--server", &url])
        .failed(1, "");
    let id = {
        let clients = home.run(&["access", "list", "--json"]);
        let clients: serde_json::Value = serde_json::from_str(&clients.succeeded().stdout).unwrap();
        clients[0]["id"].as_str().unwrap().to_owned()
    };
    home.run(&["access", "revoke", &id]).succeeded();
    client(&["session", "list", "--server", &url]).failed(1, "access was taken back");
}
