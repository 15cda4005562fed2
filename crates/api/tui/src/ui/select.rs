//! Choosing from a list with fuzzy search.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::backend::{Chosen, SelectContent, SelectRequest, SelectRow, UiBackend};
use crate::{Chord, ChordError};

/// One thing to choose.
#[derive(Debug, Clone, Default)]
pub struct SelectItem<T> {
    label: String,
    detail: String,
    search: String,
    group: Option<Arc<str>>,
    preview: Option<Arc<str>>,
    current: bool,
    value: T,
}

impl<T> SelectItem<T> {
    /// An item; search looks at its label and detail.
    pub fn new(label: impl Into<String>, value: T) -> Self {
        SelectItem {
            label: label.into(),
            detail: String::new(),
            search: String::new(),
            group: None,
            preview: None,
            current: false,
            value,
        }
    }

    /// What stands weaker behind the label.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Words that search finds it by though they are not shown.
    #[must_use]
    pub fn search(mut self, words: impl Into<String>) -> Self {
        self.search = words.into();
        self
    }

    /// The heading that it stands under while nothing is searched. Items of a group stand together.
    #[must_use]
    pub fn group(mut self, group: impl Into<Arc<str>>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Markdown that is shown beside the list while it is selected.
    #[must_use]
    pub fn preview(mut self, preview: impl Into<Arc<str>>) -> Self {
        self.preview = Some(preview.into());
        self
    }

    /// Marks the one that is in use; it is selected at first.
    #[must_use]
    pub fn current(mut self, current: bool) -> Self {
        self.current = current;
        self
    }
}

/// Something else than choosing that a key does with the selected item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectAction {
    /// The key, a single stroke.
    pub chord: Chord,
    /// What it is called in the hints and in [`Selected::action`].
    pub name: Arc<str>,
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected<T> {
    /// The item's value.
    pub value: T,
    /// The action whose key was pressed; `None` for enter.
    pub action: Option<Arc<str>>,
}

/// A list to choose from.
pub struct Select<T> {
    title: String,
    placeholder: String,
    empty: String,
    query: String,
    actions: Vec<SelectAction>,
    content: Arc<Mutex<SelectContent>>,
    values: std::marker::PhantomData<fn(T)>,
}

impl<T: Send + Sync + 'static> Select<T> {
    /// A list under a title.
    pub fn new(title: impl Into<String>) -> Self {
        Select {
            title: title.into(),
            placeholder: "type to search".into(),
            empty: "nothing to choose from".into(),
            query: String::new(),
            actions: Vec::new(),
            content: Arc::default(),
            values: std::marker::PhantomData,
        }
    }

    /// Adds an item.
    #[must_use]
    pub fn item(self, item: SelectItem<T>) -> Self {
        lock(&self.content).rows.push(into_row(item));
        self
    }

    /// Adds items.
    #[must_use]
    pub fn items(self, items: impl IntoIterator<Item = SelectItem<T>>) -> Self {
        lock(&self.content)
            .rows
            .extend(items.into_iter().map(into_row));
        self
    }

    /// What stands in the empty search line.
    #[must_use]
    pub fn placeholder(mut self, placeholder: impl Into<String>) -> Self {
        self.placeholder = placeholder.into();
        self
    }

    /// What is said when there is nothing to choose from.
    #[must_use]
    pub fn empty(mut self, empty: impl Into<String>) -> Self {
        self.empty = empty.into();
        self
    }

    /// What is searched at first.
    #[must_use]
    pub fn query(mut self, query: impl Into<String>) -> Self {
        self.query = query.into();
        self
    }

    /// A key (`ctrl+d`) that ends the dialog with the selected item and this action.
    pub fn action(mut self, key: &str, name: &str) -> Result<Self, ChordError> {
        let chord: Chord = key.parse()?;
        if chord.strokes().len() > 1 {
            return Err(ChordError {
                chord: key.into(),
                reason: "an action of a list takes a single stroke".into(),
            });
        }
        self.actions.push(SelectAction {
            chord,
            name: name.into(),
        });
        Ok(self)
    }

    /// Changes the items while the dialog is open.
    pub fn feed(&self) -> SelectFeed<T> {
        SelectFeed {
            content: Arc::clone(&self.content),
            values: std::marker::PhantomData,
        }
    }

    pub(crate) fn into_request(self, reply: oneshot::Sender<Option<Chosen>>) -> SelectRequest {
        SelectRequest {
            title: self.title,
            placeholder: self.placeholder,
            empty: self.empty,
            query: self.query,
            actions: self.actions,
            content: self.content,
            reply,
        }
    }
}

/// Changes the items of an open [`Select`]. What is selected stays selected where it is still there.
pub struct SelectFeed<T> {
    content: Arc<Mutex<SelectContent>>,
    values: std::marker::PhantomData<fn(T)>,
}

impl<T> Clone for SelectFeed<T> {
    fn clone(&self) -> Self {
        SelectFeed {
            content: Arc::clone(&self.content),
            values: std::marker::PhantomData,
        }
    }
}

impl<T: Send + Sync + 'static> SelectFeed<T> {
    /// Puts other items in place of all.
    pub fn replace(&self, items: impl IntoIterator<Item = SelectItem<T>>) {
        let rows = items.into_iter().map(into_row).collect();
        self.change(|content| content.rows = rows);
    }

    /// Shows, or no longer, that items are still being looked for.
    pub fn loading(&self, loading: bool) {
        self.change(|content| content.loading = loading);
    }

    fn change(&self, change: impl FnOnce(&mut SelectContent)) {
        let backend = {
            let mut content = lock(&self.content);
            change(&mut content);
            content.revision += 1;
            content.backend.clone()
        };
        if let Some(backend) = backend {
            UiBackend::redraw(&*backend);
        }
    }
}

fn into_row<T: Send + Sync + 'static>(item: SelectItem<T>) -> SelectRow {
    let value: Arc<dyn Any + Send + Sync> = Arc::new(item.value);
    SelectRow {
        label: item.label,
        detail: item.detail,
        search: item.search,
        group: item.group,
        preview: item.preview,
        current: item.current,
        value,
    }
}

fn lock(content: &Mutex<SelectContent>) -> MutexGuard<'_, SelectContent> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}
