//! Pictures of `bezel run`: through a socket and from another machine, over the death of the worker.

use std::path::Path;

use bezel_testkit::{FakeModelServer, Script, SeenPart, Turn, WireFormat};

use crate::home::{Home, eventually, finish};
use crate::remote::Serving;
use crate::runs::home_with;

const MEBIBYTE: usize = 1024 * 1024;

/// Pictures of 5 MiB that differ: each is within the limit, four do not fit into one message of the wire.
fn pictures(directory: &Path, count: u8) -> Vec<String> {
    let picture = |number: u8| {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        bytes.resize(5 * MEBIBYTE, number);
        let path = directory.join(format!("{number}.png"));
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    (0..count).map(picture).collect()
}

fn arguments<'a>(before: &[&'a str], pictures: &'a [String]) -> Vec<&'a str> {
    let mut arguments = before.to_vec();
    for picture in pictures {
        arguments.extend(["--image", picture.as_str()]);
    }
    arguments.push("look");
    arguments
}

/// How many pictures, and of how many base64 letters, the model saw last.
fn seen(server: &FakeModelServer) -> Vec<usize> {
    let calls = server.calls();
    let parts = calls.last().unwrap().parts();
    let images = parts.filter_map(|part| match part {
        SeenPart::Image { data, .. } => Some(data.len()),
        _ => None,
    });
    images.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn more_pictures_than_one_message_holds_reach_the_model_over_the_workers_death() {
    let server = FakeModelServer::start(Script::new([Turn::text("seen")])).await;
    let server = server.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    let pictures = pictures(&home.project(), 4);
    let run = home
        .command(&arguments(&["run"], &pictures))
        .spawn()
        .unwrap();
    // Some of an upload is there: kill its worker.
    let sessions = home.bezel();
    eventually("an upload has begun", || uploading(&sessions).then_some(()));
    for worker in home.workers() {
        let pid = nix::unistd::Pid::from_raw(worker.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
    }
    let done = finish(run);
    assert_eq!(done.succeeded().stdout, "seen\n");
    assert_eq!(seen(&server), [(5 * MEBIBYTE).div_ceil(3) * 4; 4]);
}

/// Whether a file of an unfinished upload, with something in it, is below a directory.
fn uploading(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.flatten().any(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => uploading(&entry.path()),
        Ok(metadata) => {
            metadata.len() > 0 && entry.file_name().to_string_lossy().ends_with(".part")
        }
        Err(_) => false,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_from_another_machine_reaches_the_model() {
    let server = FakeModelServer::start(Script::new([Turn::text("seen")])).await;
    let server = server.unwrap();
    let home = home_with(&server, WireFormat::OpenAiChat, "openai");
    let away = Home::new();
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    away.run(&["attach", &serving.url, "--code", &serving.code])
        .succeeded();
    let pictures = pictures(&away.project(), 1);
    let project = home.project().display().to_string();
    let before = ["run", "--server", &serving.url, "--cwd", &project];
    let done = away.run(&arguments(&before, &pictures));
    assert_eq!(done.succeeded().stdout, "seen\n");
    assert_eq!(seen(&server), [(5 * MEBIBYTE).div_ceil(3) * 4]);
}

#[test]
fn what_is_no_picture_or_too_large_is_refused_before_anything_is_started() {
    let home = Home::new();
    std::fs::write(home.project().join("words.png"), "words").unwrap();
    std::fs::write(home.project().join("large.png"), vec![0; 5 * MEBIBYTE + 1]).unwrap();
    for (file, saying) in [
        ("none.png", "No such file"),
        ("words.png", "not a PNG, JPEG, GIF or WebP picture"),
        ("large.png", "may have 5 MiB"),
    ] {
        home.run(&["run", "--image", file, "look"])
            .failed(2, saying);
    }
    assert_eq!(home.server(), None);
}
