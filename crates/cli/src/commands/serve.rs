//! `bezel serve`: the server in the foreground, with a port for other machines.

use crate::arguments::ServeArguments;
use crate::daemon::{self, Remote};
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;

/// Runs the command.
pub fn run(arguments: ServeArguments) -> Outcome {
    let paths = Paths::of_process().map_err(Failure::usage)?;
    let remote = Remote {
        listen: arguments.listen,
        tls: arguments.tls_cert.zip(arguments.tls_key),
        allow_insecure: arguments.allow_insecure,
        allowed_hosts: arguments.allowed_hosts,
    };
    daemon::serve(&paths, false, Some(remote))
}
