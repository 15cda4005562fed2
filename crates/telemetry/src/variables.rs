//! The forms that the standard gives to values of variables.

/// The variables of one environment, and what of them was not understood.
pub(crate) struct Variables<'l> {
    lookup: &'l dyn Fn(&str) -> Option<String>,
    pub(crate) notices: Vec<String>,
}

/// A variable that is set: its name and its text, trimmed and not empty.
pub(crate) type Variable = (&'static str, String);

impl<'l> Variables<'l> {
    pub(crate) fn new(lookup: &'l dyn Fn(&str) -> Option<String>) -> Self {
        Variables {
            lookup,
            notices: Vec::new(),
        }
    }

    /// An empty one counts as not set.
    pub(crate) fn text(&self, name: &'static str) -> Option<Variable> {
        let text = (self.lookup)(name)?;
        let text = text.trim();
        (!text.is_empty()).then(|| (name, text.to_owned()))
    }

    /// The exporter's variable for traces, or else the general one.
    pub(crate) fn of_traces(&self, what: &str) -> Option<Variable> {
        let (own, general) = match what {
            "PROTOCOL" => (
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
                "OTEL_EXPORTER_OTLP_PROTOCOL",
            ),
            _ => (
                "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
                "OTEL_EXPORTER_OTLP_TIMEOUT",
            ),
        };
        self.text(own).or_else(|| self.text(general))
    }

    /// True for `true` in any case, and for nothing else.
    pub(crate) fn flag(&self, name: &'static str) -> bool {
        self.text(name)
            .is_some_and(|(_, text)| text.eq_ignore_ascii_case("true"))
    }

    pub(crate) fn number(&mut self, variable: Option<Variable>) -> Option<u64> {
        let (name, text) = variable?;
        let number = text.parse().ok();
        if number.is_none() {
            self.notices.push(format!(
                "{name}={text:?} is not a whole number; the default holds"
            ));
        }
        number
    }
}

/// `key=value,key=value`, the values percent-encoded. None for a part that is not such a pair.
pub(crate) fn pairs(text: &str) -> impl Iterator<Item = Option<(String, String)>> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part.split_once('=')?;
            let key = key.trim();
            (!key.is_empty()).then_some(())?;
            Some((key.to_owned(), decoded(value.trim())?))
        })
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = match (first, after) {
            (b'%', [high, low, ..]) => char::from(*high)
                .to_digit(16)
                .zip(char::from(*low).to_digit(16)),
            _ => None,
        };
        match code {
            Some((high, low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            // A percent sign that encodes nothing stands for itself.
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_trimmed_and_decoded_and_a_broken_one_is_none() {
        let read: Vec<_> = pairs(" a = b%20c ,, =x, d=e=f, g, h=%zz%4").collect();
        let pair = |key: &str, value: &str| Some((key.to_owned(), value.to_owned()));
        assert_eq!(
            read,
            [
                pair("a", "b c"),
                None,
                pair("d", "e=f"),
                None,
                pair("h", "%zz%4")
            ]
        );
    }
}
