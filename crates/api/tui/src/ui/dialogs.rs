//! Dialogs of fixed shape, and toasts.

use std::sync::Arc;

/// How grave a note is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Worth knowing.
    #[default]
    Info,
    /// It went well.
    Success,
    /// Needs attention.
    Warning,
    /// It failed.
    Error,
}

/// A short note that goes away by itself: errors after ten seconds, the rest after four.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toast {
    /// How grave it is.
    pub level: Level,
    /// What to say.
    pub text: String,
}

impl Toast {
    /// A note worth knowing.
    pub fn info(text: impl Into<String>) -> Self {
        Toast {
            level: Level::Info,
            text: text.into(),
        }
    }

    /// Something went well.
    pub fn success(text: impl Into<String>) -> Self {
        Toast {
            level: Level::Success,
            text: text.into(),
        }
    }

    /// Something needs attention.
    pub fn warning(text: impl Into<String>) -> Self {
        Toast {
            level: Level::Warning,
            text: text.into(),
        }
    }

    /// Something failed: say what was attempted and what to do.
    pub fn error(text: impl Into<String>) -> Self {
        Toast {
            level: Level::Error,
            text: text.into(),
        }
    }
}

impl<T: Into<String>> From<T> for Toast {
    fn from(text: T) -> Self {
        Toast::info(text)
    }
}

/// Says what is wrong with a text; nothing where it passes.
pub(crate) type Check = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A question for one line of text.
#[derive(Clone, Default)]
pub struct Input {
    pub(crate) title: String,
    pub(crate) prompt: String,
    pub(crate) placeholder: String,
    pub(crate) initial: String,
    pub(crate) secret: bool,
    pub(crate) check: Option<Check>,
}

impl Input {
    /// A question under a title.
    pub fn new(title: impl Into<String>) -> Self {
        Input {
            title: title.into(),
            ..Input::default()
        }
    }

    /// A sentence above the line.
    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// What stands in the empty line.
    #[must_use]
    pub fn placeholder(mut self, placeholder: impl Into<String>) -> Self {
        self.placeholder = placeholder.into();
        self
    }

    /// What the line starts with.
    #[must_use]
    pub fn initial(mut self, initial: impl Into<String>) -> Self {
        self.initial = initial.into();
        self
    }

    /// Shows dots in place of what is typed.
    #[must_use]
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Refuses what does not pass: what the check says is wrong stands below the line.
    #[must_use]
    pub fn check(mut self, check: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.check = Some(Arc::new(check));
        self
    }
}

/// A question for yes or no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirm {
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) yes: String,
    pub(crate) no: String,
    pub(crate) danger: bool,
}

impl Confirm {
    /// A question; `body` is Markdown.
    pub fn new(title: impl Into<String>, body: impl Into<String>) -> Self {
        Confirm {
            title: title.into(),
            body: body.into(),
            yes: "Yes".into(),
            no: "No".into(),
            danger: false,
        }
    }

    /// What the two buttons say.
    #[must_use]
    pub fn labels(mut self, yes: impl Into<String>, no: impl Into<String>) -> Self {
        self.yes = yes.into();
        self.no = no.into();
        self
    }

    /// Something is lost by saying yes: `no` is selected at first.
    #[must_use]
    pub fn danger(mut self) -> Self {
        self.danger = true;
        self
    }
}

/// Something to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    pub(crate) title: String,
    pub(crate) body: String,
}

impl Message {
    /// A message; `body` is Markdown.
    pub fn new(title: impl Into<String>, body: impl Into<String>) -> Self {
        Message {
            title: title.into(),
            body: body.into(),
        }
    }
}
