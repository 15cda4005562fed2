//! Splits a byte stream into server-sent events, however it is cut into reads.
//!
//! Only `data` matters here: every model's events carry their kind in their JSON. An event that lies whole
//! within one read is handed on without a copy.

/// Far more than any event; a line without end must not fill the memory.
const MAX_EVENT: usize = 64 * 1024 * 1024;

/// An event that is longer than any real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The splitter's state between reads.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// The data of the event that is open, its lines joined.
    data: Vec<u8>,
    has_data: bool,
    /// The last read ended in a carriage return: a line feed at the start of the next belongs to it.
    after_return: bool,
    /// A byte order mark may stand before the first line.
    started: bool,
}

impl Splitter {
    /// Takes a read and gives each event that it completes to `on_event`. Stops at the first error.
    pub(crate) fn push<E: From<TooLong>>(
        &mut self,
        read: &[u8],
        mut on_event: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = read;
        // The data of the open event while it is one line of this read.
        let mut lone: Option<&[u8]> = None;
        if self.after_return && !rest.is_empty() {
            self.after_return = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            let (line, ended) = rest.split_at(end);
            let whole = self.line.is_empty();
            if !whole {
                self.line.extend_from_slice(line);
            }
            rest = match ended {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
            if whole {
                let line = self.without_mark(line);
                if line.is_empty() {
                    if let Some(data) = lone.take() {
                        on_event(data)?;
                    } else {
                        self.dispatch(&mut on_event)?;
                    }
                } else if let Some(data) = field(line) {
                    if self.has_data || lone.is_some() {
                        self.keep(lone.take());
                        self.keep(Some(data));
                    } else {
                        lone = Some(data);
                    }
                }
            } else {
                self.keep(lone.take());
                let line = std::mem::take(&mut self.line);
                let data = field(self.without_mark(&line));
                self.keep(data);
                self.line = line;
                self.line.clear();
            }
        }
        self.line.extend_from_slice(rest);
        self.keep(lone);
        if self.line.len() + self.data.len() > MAX_EVENT {
            return Err(TooLong.into());
        }
        Ok(())
    }

    /// The stream has ended: gives an event that lacks only its blank line to `on_event`.
    pub(crate) fn finish<E>(
        &mut self,
        mut on_event: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        let data = field(self.without_mark(&line));
        self.keep(data);
        self.dispatch(&mut on_event)
    }

    /// Appends a line of data to the open event.
    fn keep(&mut self, data: Option<&[u8]>) {
        if let Some(data) = data {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data);
        }
    }

    fn dispatch<E>(&mut self, on_event: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if !std::mem::take(&mut self.has_data) {
            return Ok(());
        }
        let outcome = on_event(&self.data);
        self.data.clear();
        outcome
    }

    fn without_mark<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        if std::mem::replace(&mut self.started, true) {
            return line;
        }
        line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
    }
}

/// The data of a `data` line.
fn field(line: &[u8]) -> Option<&[u8]> {
    let value = line.strip_prefix(b"data")?;
    match value {
        [] => Some(value),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl From<TooLong> for () {
        fn from(_: TooLong) {}
    }

    fn events<'a>(reads: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut events = Vec::new();
        let mut keep = |data: &[u8]| {
            events.push(String::from_utf8_lossy(data).into_owned());
            Ok::<(), ()>(())
        };
        for read in reads {
            splitter.push(read, &mut keep).unwrap();
        }
        splitter.finish(&mut keep).unwrap();
        events
    }

    #[test]
    fn events_end_at_blank_lines_and_everything_else_is_skipped() {
        let stream = b"\xef\xbb\xbfdata: one\n\n: a comment\nevent: x\nid: 4\ndata:two\r\n\r\nretry: 5\n\ndata\ndata: 3\n\n";
        assert_eq!(events([&stream[..]]), ["one", "two", "\n3"]);
        assert_eq!(
            events([&b"datax: no\n\ndata: last"[..]]),
            ["last"],
            "the blank line at the end may be missing"
        );
        assert_eq!(
            events([&b"data: a\rdata: b\r\rdata: c\r"[..], &b"\n\r\n"[..]]),
            ["a\nb", "c"]
        );
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut splitter = Splitter::default();
        let chunk = vec![b'x'; 16 * 1024 * 1024];
        let outcomes: Vec<_> = (0..5)
            .map(|_| splitter.push(&chunk, |_| Ok::<(), ()>(())))
            .collect();
        assert_eq!(
            outcomes.iter().filter(|outcome| outcome.is_err()).count(),
            1
        );
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            3 => "data: [a-z{}\"é]{0,12}",
            1 => "data:[a-z]{0,4}",
            1 => Just("data".to_string()),
            1 => ": [a-z]{0,6}",
            1 => "event: [a-z]{1,6}",
            3 => Just(String::new()),
        ];
        let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
        prop::collection::vec((line, end), 0..30).prop_map(|lines| {
            lines
                .into_iter()
                .flat_map(|(line, end)| [line.into_bytes(), end.as_bytes().to_vec()].concat())
                .collect()
        })
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_events(stream in stream(), cuts in prop::collection::vec(0_usize..400, 0..12)) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.sort_unstable();
            let mut reads = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([stream.len()]) {
                reads.push(&stream[from..cut]);
                from = cut;
            }
            prop_assert_eq!(events(reads), events([&stream[..]]));
            prop_assert_eq!(events(stream.chunks(1)), events([&stream[..]]));
        }

        #[test]
        fn garbage_never_panics(reads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..16)) {
            events(reads.iter().map(Vec::as_slice));
        }
    }
}
