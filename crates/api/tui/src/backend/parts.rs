//! What dialogs and overlays are made of, for the host that draws them.

use crate::{Ask, Confirm, Input, Message, Overlay, OverlayPlacement, View};

/// An overlay's parts.
pub struct OverlayParts {
    /// The view.
    pub view: Box<dyn View>,
    /// Where it stands.
    pub placement: OverlayPlacement,
    /// Its title.
    pub title: Option<String>,
    /// Keys worth knowing.
    pub hints: String,
    /// Whether it has a frame.
    pub framed: bool,
    /// Whether it takes the keys.
    pub modal: bool,
}

impl From<Overlay> for OverlayParts {
    fn from(overlay: Overlay) -> Self {
        let Overlay {
            view,
            placement,
            title,
            hints,
            framed,
            modal,
        } = overlay;
        OverlayParts {
            view,
            placement,
            title,
            hints,
            framed,
            modal,
        }
    }
}

/// Says what is wrong with a text.
pub type InputCheck = crate::ui::Check;

/// A line-of-text dialog's parts.
pub struct InputParts {
    /// Its title.
    pub title: String,
    /// A sentence above the line.
    pub prompt: String,
    /// What stands in the empty line.
    pub placeholder: String,
    /// What the line starts with.
    pub initial: String,
    /// Whether dots are shown.
    pub secret: bool,
    /// Refuses what does not pass.
    pub check: Option<InputCheck>,
}

impl From<Input> for InputParts {
    fn from(input: Input) -> Self {
        let Input {
            title,
            prompt,
            placeholder,
            initial,
            secret,
            check,
        } = input;
        InputParts {
            title,
            prompt,
            placeholder,
            initial,
            secret,
            check,
        }
    }
}

/// A yes-or-no dialog's parts.
pub struct ConfirmParts {
    /// Its title.
    pub title: String,
    /// The question, Markdown.
    pub body: String,
    /// The button for yes.
    pub yes: String,
    /// The button for no.
    pub no: String,
    /// Whether `no` is selected at first.
    pub danger: bool,
}

impl From<Confirm> for ConfirmParts {
    fn from(confirm: Confirm) -> Self {
        let Confirm {
            title,
            body,
            yes,
            no,
            danger,
        } = confirm;
        ConfirmParts {
            title,
            body,
            yes,
            no,
            danger,
        }
    }
}

/// A question's parts.
pub struct AskParts {
    /// Its title.
    pub title: String,
    /// What is asked, Markdown.
    pub body: String,
    /// The answers.
    pub options: Vec<AskOptionParts>,
    /// What the line for another answer says while it is empty; no such line without.
    pub text: Option<String>,
    /// What answering nothing is called; not possible without.
    pub cancel: Option<String>,
}

/// An answer's parts.
pub struct AskOptionParts {
    /// Its name.
    pub label: String,
    /// What follows from it.
    pub detail: String,
    /// The letter that chooses it.
    pub key: Option<char>,
    /// Whether it answers only once all of the question was on the screen.
    pub after_reading: bool,
}

impl From<Ask> for AskParts {
    fn from(ask: Ask) -> Self {
        let Ask {
            title,
            body,
            options,
            text,
            cancel,
        } = ask;
        let options = options.into_iter();
        AskParts {
            title,
            body,
            options: options
                .map(|option| AskOptionParts {
                    label: option.label,
                    detail: option.detail,
                    key: option.key,
                    after_reading: option.after_reading,
                })
                .collect(),
            text,
            cancel,
        }
    }
}

/// A message's title and Markdown.
pub fn message_parts(message: Message) -> (String, String) {
    (message.title, message.body)
}
