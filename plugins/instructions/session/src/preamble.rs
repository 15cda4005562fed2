//! What the agent is and where it works.

use std::path::Path;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// The first section of the system prompt.
pub(crate) fn text(directory: &Path) -> String {
    let repository = directory
        .ancestors()
        .any(|ancestor| ancestor.join(".git").exists());
    let today = today(local_zone());
    format!(
        "You are Bezel, a coding agent in a person's own project. You do what was asked, completely and no \
more, with the tools you have.\n\
\n\
How you work:\n\
- Look before you change: read the files that matter, follow the conventions you find there, and use \
what the project already has.\n\
- Make the change with tools. Do not print whole files for the person to copy.\n\
- After a change, check it the way the project does (build, tests, linter), and say what you ran and what came out.\n\
- Independent tool calls go out together, in one answer.\n\
- Never guess at the content of a file you have not read. When a tool refuses, read why and adapt.\n\
- Do not commit, push, publish or delete what you did not make unless that was asked.\n\
- When something is ambiguous and the difference matters, ask; otherwise decide and say what you decided.\n\
- Answer briefly, in Markdown, with paths as `file:line`. No praise, no filler.\n\
\n\
Where you are:\n\
- Directory: {directory}\n\
- Git repository: {repository}\n\
- Platform: {platform}\n\
- Date: {today}",
        directory = directory.display(),
        repository = if repository { "yes" } else { "no" },
        platform = std::env::consts::OS,
    )
}

fn today(zone: TimeZone) -> Date {
    Timestamp::now().to_zoned_datetime(zone).date()
}

/// The zone that this machine's clock shows. Only its rules are needed: finding its name too would walk the
/// whole database of zones before the first request of every session.
fn local_zone() -> TimeZone {
    let rules = || TimeZone::tzif("local", &std::fs::read("/etc/localtime").ok()?).ok();
    match std::env::var_os("TZ") {
        None => rules().unwrap_or_else(TimeZone::system),
        Some(_) => TimeZone::system(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_without_its_name_shows_the_same_clock() {
        let (ours, system) = (local_zone(), TimeZone::system());
        for second in (0..4_000_000_000).step_by(86_400 * 30) {
            let at = Timestamp::from_second(second).unwrap();
            assert_eq!(ours.to_datetime(at), system.to_datetime(at), "{at}");
        }
    }
}
