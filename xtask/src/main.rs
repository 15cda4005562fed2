//! The project's own commands: run, test, bench, tidy, edges. `cargo xtask help` lists them.

mod bench;
mod command;
mod edges;
mod run;
mod source;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const HELP: &str = "\
cargo xtask COMMAND

  run [--release] [-- ARGUMENTS]   build bezel and start it in this directory; without a terminal
                                   it plays the tour headless, prints it and exits
  test [--group NAME]... [--list]  everything that must hold before a change lands
  tidy                             module docs, sizes, names, words per layer, links
  edges [--bless]                  who may depend on whom; --bless rewrites docs/edges.txt
  bench [--only NAME]... [--rounds N] [--peers FOLDER] [--list]
                                   speed and memory against limits and peers of the same run;
                                   writes bench.json and prints a table
  help                             this text
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    // The measuring child must stay small: it needs no workspace.
    if name == bench::MEASURE_COMMAND {
        return report(bench::measure_command(&rest));
    }
    if matches!(name.as_str(), "" | "help" | "--help" | "-h") || command::asks_for_help(&rest) {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let workspace = Workspace::here();
    report(match name.as_str() {
        "run" => run::command(&workspace, &rest),
        "test" => test::command(&workspace, &rest),
        "tidy" => tidy::command(&workspace, &rest),
        "edges" => edges::command(&workspace, &rest),
        "bench" => bench::command(&workspace, &rest),
        unknown => Err(command::Usage(format!("no command is called `{unknown}`")).into()),
    })
}

/// Prints a failure with its chain of causes; bad usage ends with 2, everything else with 1.
fn report(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            match error.downcast_ref::<command::Usage>() {
                Some(_) => {
                    eprintln!("`cargo xtask help` lists the commands and their flags.");
                    ExitCode::from(2)
                }
                None => ExitCode::FAILURE,
            }
        }
    }
}
