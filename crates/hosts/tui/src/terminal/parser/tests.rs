//! The bytes that terminals send.

use bezel_api_tui::{Chord, KeyStroke, MouseButton, MouseEvent, MouseEventKind};
use bezel_presentation::theme::ThemeKind;
use proptest::prelude::*;

use super::super::event::Reply;
use super::*;

fn events(bytes: &[u8]) -> Vec<TerminalEvent> {
    let (mut parser, mut events) = (Parser::default(), Vec::new());
    parser.feed(bytes, &mut events);
    parser.flush(&mut events);
    events
}

fn keys(bytes: &[u8]) -> Vec<String> {
    let shown = |event: TerminalEvent| match event {
        TerminalEvent::Key(event) => Chord::from(KeyStroke::from(&event)).to_string(),
        other => format!("{other:?}"),
    };
    events(bytes).into_iter().map(shown).collect()
}

#[test]
fn keys_are_the_same_in_whatever_way_a_terminal_reports_them() {
    let cases: &[(&str, &[&[u8]])] = &[
        ("a", &[b"a", b"\x1b[97u", b"\x1b[97;1u"]),
        ("shift+a", &[b"A", b"\x1b[97:65;2u", b"\x1b[27;2;65~"]),
        ("ctrl+t", &[b"\x14", b"\x1b[116;5u", b"\x1b[27;5;116~"]),
        ("alt+x", &[b"\x1bx", b"\x1b[120;3u"]),
        ("enter", &[b"\r", b"\x1b[13u", b"\x1bOM"]),
        ("shift+enter", &[b"\x1b[13;2u", b"\x1b[27;2;13~"]),
        ("alt+enter", &[b"\x1b\r", b"\x1b[13;3u"]),
        ("esc", &[b"\x1b", b"\x1b[27u"]),
        ("tab", &[b"\t", b"\x1b[9u"]),
        ("shift+tab", &[b"\x1b[Z", b"\x1b[9;2u"]),
        ("backspace", &[b"\x7f", b"\x1b[127u"]),
        ("alt+backspace", &[b"\x1b\x7f"]),
        ("ctrl+space", &[b"\0", b"\x1b[32;5u"]),
        ("ctrl+_", &[b"\x1f"]),
        ("up", &[b"\x1b[A", b"\x1bOA", b"\x1b[1;1A"]),
        ("ctrl+left", &[b"\x1b[1;5D"]),
        ("home", &[b"\x1b[H", b"\x1b[1~", b"\x1b[7~", b"\x1bOH"]),
        ("delete", &[b"\x1b[3~"]),
        ("ctrl+delete", &[b"\x1b[3;5~"]),
        ("pageup", &[b"\x1b[5~"]),
        ("f1", &[b"\x1bOP", b"\x1b[P", b"\x1b[11~"]),
        ("f5", &[b"\x1b[15~"]),
        ("f12", &[b"\x1b[24~"]),
        ("é", &["é".as_bytes()]),
        ("漢", &["漢".as_bytes()]),
        ("alt+[", &[b"\x1b["]),
    ];
    for (chord, spellings) in cases {
        for bytes in *spellings {
            assert_eq!(
                keys(bytes),
                [*chord],
                "{:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
    assert_eq!(keys(b"\x1b\x1b[A"), ["esc", "up"]);
    assert_eq!(keys(b"\x1b[97;1:3u"), Vec::<String>::new());
}

#[test]
fn the_mouse_paste_focus_and_answers_are_read() {
    let mouse = |kind, column, row| {
        TerminalEvent::Mouse(MouseEvent {
            kind,
            column,
            row,
            modifiers: KeyModifiers::NONE,
        })
    };
    assert_eq!(
        events(b"\x1b[<0;5;7M"),
        [mouse(MouseEventKind::Down(MouseButton::Left), 4, 6)]
    );
    assert_eq!(
        events(b"\x1b[<32;5;7M"),
        [mouse(MouseEventKind::Drag(MouseButton::Left), 4, 6)]
    );
    assert_eq!(
        events(b"\x1b[<2;5;7m"),
        [mouse(MouseEventKind::Up(MouseButton::Right), 4, 6)]
    );
    assert_eq!(
        events(b"\x1b[<65;1;1M"),
        [mouse(MouseEventKind::ScrollDown, 0, 0)]
    );
    assert_eq!(events(b"\x1b[<35;1;1M"), []);
    assert_eq!(events(b"\x1b[200~two\r\nlines\x1b[A\x1b[201~x").len(), 2);
    assert_eq!(
        events(b"\x1b[200~two\r\nlines\x1b[201~"),
        [TerminalEvent::Paste("two\nlines".into())]
    );
    assert_eq!(
        events(b"\x1b[I\x1b[O"),
        [TerminalEvent::FocusGained, TerminalEvent::FocusLost]
    );
    let background = [TerminalEvent::Reply(Reply::Background(255, 128, 0))];
    assert_eq!(events(b"\x1b]11;rgb:ffff/8080/0000\x1b\\"), background);
    assert_eq!(events(b"\x1b]11;rgb:ff/80/00\x07"), background);
    assert_eq!(
        events(b"\x1b[?0u\x1b[?62;22c"),
        [
            TerminalEvent::Reply(Reply::Keyboard),
            TerminalEvent::Reply(Reply::Attributes)
        ]
    );
    assert_eq!(
        events(b"\x1b[?997;2n"),
        [TerminalEvent::Reply(Reply::Scheme(ThemeKind::Light))]
    );
    assert_eq!(
        events(b"\x1bP>|xterm\x1b\\\x1b_Gok\x1b\\\x1b]52;c;\x07a"),
        events(b"a")
    );
}

proptest! {
    #[test]
    fn bytes_may_arrive_in_any_pieces(cuts in proptest::collection::vec(0_usize..80, 0..12)) {
        let bytes = "aé\x1b[1;5D\x1b[200~x\r\ny漢\x1b[201~\x1b[<0;5;7M\x1b]11;rgb:ff/80/00\x1b\\\x1bOP\x1b[97;5u漢z".as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([bytes.len()]).collect();
        cuts.sort_unstable();
        let (mut parser, mut seen, mut from) = (Parser::default(), Vec::new(), 0);
        for cut in cuts {
            parser.feed(&bytes[from..cut], &mut seen);
            from = cut;
        }
        prop_assert!(!parser.is_waiting());
        prop_assert_eq!(seen, events(bytes));
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        events(&bytes);
    }
}
