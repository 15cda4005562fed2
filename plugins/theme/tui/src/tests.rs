//! Contrast of the themes, and the picker in a terminal.

use bezel_api_tui::ThemeChoice;
use bezel_api_tui::ratatui::style::Color as TerminalColor;
use bezel_host_tui::{HarnessOptions, TuiHarness};
use bezel_plugin::ManifestEntry;
use bezel_presentation::text::Role;
use bezel_presentation::theme::{Color, Theme, ThemeKind, dark, light};
use serde_json::json;

use crate::{facet, rows, themes};

/// Roles of text that is read.
const READ: &[Role] = &[
    Role::Muted,
    Role::Faint,
    Role::Accent,
    Role::AccentAlternate,
    Role::Heading,
    Role::Link,
    Role::InlineCode,
    Role::CodeBlock,
    Role::Quote,
    Role::Success,
    Role::Warning,
    Role::Error,
    Role::Notice,
    Role::Thinking,
    Role::Title,
    Role::Key,
    Role::Match,
    Role::Status,
    Role::Placeholder,
    Role::LineNumber,
    Role::Comment,
    Role::Keyword,
    Role::Operator,
    Role::Punctuation,
    Role::String,
    Role::Escape,
    Role::Number,
    Role::Constant,
    Role::Function,
    Role::Type,
    Role::Variable,
    Role::Property,
    Role::Tag,
    Role::Attribute,
    Role::Namespace,
    Role::Invalid,
];

/// Roles that may be weaker: they say what is known from elsewhere.
const WEAK: &[Role] = &[
    Role::Faint,
    Role::Placeholder,
    Role::LineNumber,
    Role::Comment,
];

/// Relative luminance, WCAG 2.
fn luminance(color: Color) -> f64 {
    let (red, green, blue) = color.to_rgb();
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.03928 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

fn contrast(one: Color, other: Color) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// The backgrounds that terminals of this kind commonly have.
fn grounds(theme: &Theme) -> Vec<Color> {
    match theme.kind() {
        ThemeKind::Dark => vec![Color::Rgb(0, 0, 0), Color::Rgb(0x1e, 0x1e, 0x1e)],
        ThemeKind::Light => vec![Color::Rgb(0xff, 0xff, 0xff), Color::Rgb(0xfb, 0xf7, 0xee)],
    }
}

#[test]
fn text_of_every_theme_can_be_read_on_every_ground() {
    for theme in [dark(), light()].into_iter().chain(themes().unwrap()) {
        let check = |role: Role, ground: Color, least: f64, where_: &str| {
            let Some(text) = theme.look(role).foreground else {
                return;
            };
            let found = contrast(text, ground);
            assert!(
                found >= least,
                "{}: {} on {where_} has {found:.2}, needs {least}",
                theme.name(),
                role.key()
            );
        };
        for role in READ {
            let weak = WEAK.contains(role);
            for ground in grounds(&theme) {
                check(*role, ground, 4.5, "the terminal");
            }
            for ground in [
                Role::Surface,
                Role::UserMessage,
                Role::Selection,
                Role::DiffAdded,
                Role::DiffRemoved,
            ] {
                let color = theme.look(ground).background.unwrap();
                let least = if weak && ground != Role::Surface {
                    3.0
                } else {
                    4.5
                };
                check(*role, color, least, ground.key());
            }
            for ground in [Role::DiffAddedEmphasis, Role::DiffRemovedEmphasis] {
                let color = theme.look(ground).background.unwrap();
                check(*role, color, if weak { 2.8 } else { 3.8 }, ground.key());
            }
        }
    }
}

#[test]
fn what_changed_in_a_line_stands_out_from_the_line() {
    for theme in [dark(), light()].into_iter().chain(themes().unwrap()) {
        let ground = |role: Role| theme.look(role).background.unwrap();
        for (line, part) in [
            (Role::DiffAdded, Role::DiffAddedEmphasis),
            (Role::DiffRemoved, Role::DiffRemovedEmphasis),
        ] {
            let found = contrast(ground(line), ground(part));
            assert!(
                found >= 1.15,
                "{}: {} has {found:.2}",
                theme.name(),
                part.key()
            );
        }
    }
}

#[test]
fn every_theme_can_be_chosen_by_its_name() {
    let names: Vec<String> = rows(&themes().unwrap())
        .into_iter()
        .map(|row| row.choice.into())
        .collect();
    assert_eq!(
        names,
        [
            "auto",
            "dark",
            "light",
            "dusk",
            "paper",
            "contrast-dark",
            "contrast-light"
        ]
    );
}

async fn harness(config: serde_json::Value) -> TuiHarness {
    let mut entry = ManifestEntry::required("theme", "0.0.0");
    entry.config = config;
    let run = bezel_api_tui::Facet::new("run", |cx: bezel_api_tui::TuiContext| async move {
        cx.keybindings
            .add(bezel_api_tui::Binding::new("f2", "theme.select")?);
        Ok(())
    });
    let options = HarnessOptions {
        facets: vec![facet(), run],
        entries: vec![entry],
        ..HarnessOptions::default()
    };
    TuiHarness::start(options).await.unwrap()
}

/// The colour of the title in the list's frame.
fn title_color(screen: &bezel_host_tui::Screen) -> Option<TerminalColor> {
    let (x, y) = screen.find(" Theme ")?;
    screen.style(x + 1, y).fg
}

fn terminal(color: Option<Color>) -> Option<TerminalColor> {
    color.map(|color| {
        let (red, green, blue) = color.to_rgb();
        TerminalColor::Rgb(red, green, blue)
    })
}

#[tokio::test]
async fn a_theme_is_shown_while_it_is_selected_and_kept_when_chosen() {
    let tui = harness(json!({"theme": "dark"})).await;
    tui.press("f2").await;
    let screen = tui.wait_for_text("for light backgrounds").await;
    assert_eq!(
        title_color(&screen),
        terminal(dark().look(Role::Title).foreground)
    );
    insta::assert_snapshot!(screen.text());
    tui.press("down").await;
    let light_title = terminal(light().look(Role::Title).foreground);
    let screen = tui
        .wait_for(|screen| title_color(screen) == light_title)
        .await;
    assert!(screen.contains("▌   light"), "{}", screen.text());
    tui.press("enter").await;
    tui.wait_for_text("theme light").await;
    // Opened again, the one that was chosen is marked, and cancelling leaves it.
    tui.press("f2").await;
    let screen = tui.wait_for_text("▌ ● light").await;
    assert_eq!(title_color(&screen), light_title);
}

#[tokio::test]
async fn cancelling_brings_the_theme_back_that_was_there() {
    let tui = harness(json!({"theme": "dusk"})).await;
    tui.press("f2").await;
    let dusk = themes().unwrap().remove(0).look(Role::Title).foreground;
    tui.wait_for(|screen| title_color(screen) == terminal(dusk))
        .await;
    tui.press("home").await;
    tui.press("down").await;
    tui.wait_for(|screen| title_color(screen) == terminal(dark().look(Role::Title).foreground))
        .await;
    tui.press("esc").await;
    tui.wait_for(|screen| !screen.contains(" Theme ")).await;
    tui.press("f2").await;
    tui.wait_for(|screen| title_color(screen) == terminal(dusk))
        .await;
}

#[tokio::test]
async fn a_wrong_configuration_is_refused() {
    let mut entry = ManifestEntry::required("theme", "0.0.0");
    entry.config = json!({"colour": "dark"});
    let options = HarnessOptions {
        facets: vec![facet()],
        entries: vec![entry],
        ..HarnessOptions::default()
    };
    let error = TuiHarness::start(options)
        .await
        .err()
        .expect("an error")
        .to_string();
    assert!(
        error.contains("theme") && error.contains("colour"),
        "{error}"
    );
    assert_eq!(ThemeChoice::from("auto".to_owned()), ThemeChoice::Auto);
}
