//! The bezel command: arguments and deployment.

use std::process::ExitCode;

fn main() -> ExitCode {
    bezel_cli::main()
}
