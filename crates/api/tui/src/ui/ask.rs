//! A question that waits for this person: put aside and found again, and answered once.

/// A question with options. Unlike other dialogs it belongs to something that waits, and so esc does not
/// answer it: it is put aside, a mark in the status line says that it waits, and the screen's own
/// command brings it back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ask {
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) options: Vec<AskOption>,
    pub(crate) text: Option<String>,
    pub(crate) cancel: Option<String>,
}

/// One answer to choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskOption {
    pub(crate) label: String,
    pub(crate) detail: String,
    pub(crate) key: Option<char>,
    pub(crate) after_reading: bool,
}

/// What the person answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The option at this place, from 0.
    Option(usize),
    /// What they wrote; never blank.
    Text(String),
    /// They answer nothing.
    Cancel,
}

impl Ask {
    /// A question; `body` is Markdown.
    pub fn new(title: impl Into<String>, body: impl Into<String>) -> Self {
        Ask {
            title: title.into(),
            body: body.into(),
            ..Ask::default()
        }
    }

    /// Adds an answer to choose.
    #[must_use]
    pub fn option(mut self, option: AskOption) -> Self {
        self.options.push(option);
        self
    }

    /// Lets the person write something else; `label` is what the line says while it is empty.
    #[must_use]
    pub fn text(mut self, label: impl Into<String>) -> Self {
        self.text = Some(label.into());
        self
    }

    /// Lets the person answer nothing; `label` says what that means.
    #[must_use]
    pub fn cancel(mut self, label: impl Into<String>) -> Self {
        self.cancel = Some(label.into());
        self
    }
}

impl AskOption {
    /// An answer of this name.
    pub fn new(label: impl Into<String>) -> Self {
        AskOption {
            label: label.into(),
            ..AskOption::default()
        }
    }

    /// What follows from it, below its name.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// A letter that chooses it, beside its number.
    #[must_use]
    pub fn key(mut self, key: char) -> Self {
        self.key = Some(key);
        self
    }

    /// Answers only once all of the question was on the screen: for what counts longer than the person remembers it.
    #[must_use]
    pub fn after_reading(mut self) -> Self {
        self.after_reading = true;
        self
    }
}
