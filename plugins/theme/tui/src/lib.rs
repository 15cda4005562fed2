//! The light and dark terminal themes, and the picker that shows each as it is passed.

mod picker;

use std::sync::{Arc, Mutex, PoisonError};

use bezel_api_tui::{
    Command, Completion, Facet, FacetError, Overlay, OverlayPlacement, ThemeChoice, Toast,
    TuiContext, TuiFacet,
};
use bezel_presentation::theme::Theme;
use serde::Deserialize;

use crate::picker::{Picker, Row};

/// Themes beside the two that are built in, as files that anybody could write.
const THEMES: [&str; 4] = [
    include_str!("themes/dusk.json"),
    include_str!("themes/paper.json"),
    include_str!("themes/contrast-dark.json"),
    include_str!("themes/contrast-light.json"),
];

/// Configuration of the plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThemeConfig {
    /// `auto`, `light`, `dark` or the name of a theme; without it the host decides.
    pub theme: Option<ThemeChoice>,
}

/// The terminal facet of themes.
pub fn facet() -> TuiFacet {
    Facet::new("theme", setup).configured::<ThemeConfig>()
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    let config: ThemeConfig = cx.config()?;
    for theme in themes()? {
        cx.themes.add(theme);
    }
    // A plain mutex: held to look or to set.
    let current = Arc::new(Mutex::new(config.theme.clone().unwrap_or_default()));
    if let Some(choice) = config.theme {
        cx.themes.select(choice);
    }
    let (context, themes) = (cx.clone(), cx.themes.clone());
    let select = Command::new("theme.select", "Choose a theme")
        .description("Shows each theme while you look through the list")
        .slash("theme")
        .argument_hint("[name]")
        .complete(move |_, typed| {
            let names = rows(&themes.list()).into_iter().map(|row| Completion { text: row.choice.into(), detail: row.detail });
            let fits: Vec<Completion> = names.filter(|name| name.text.contains(typed.trim())).collect();
            async move { fits }
        })
        .run(move |cx, arguments| {
            let (context, current) = (context.clone(), Arc::clone(&current));
            async move {
                let before = current.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let rows = rows(&context.themes.list());
                let chosen = match arguments.text.as_str() {
                    "" => pick(&context, &cx, rows, before.clone()).await,
                    name => {
                        let wanted = ThemeChoice::from(name.to_owned());
                        if !rows.iter().any(|row| row.choice == wanted) {
                            return Err(format!("there is no theme {name}; /theme shows what there is").into());
                        }
                        Some(wanted)
                    }
                };
                // Without a choice what was there before comes back.
                let kept = chosen.clone().unwrap_or(before);
                context.themes.select(kept.clone());
                *current.lock().unwrap_or_else(PoisonError::into_inner) = kept;
                if let Some(chosen) = chosen {
                    let name = String::from(chosen);
                    let note = format!("theme {name}; to keep it, write theme = \"{name}\" under [plugins.theme.config] in config.toml");
                    context.ui.toast(Toast::info(note));
                }
                Ok(())
            }
        });
    cx.commands.add(select);
    Ok(())
}

fn themes() -> Result<Vec<Theme>, serde_json::Error> {
    THEMES
        .iter()
        .map(|file| serde_json::from_str(file))
        .collect()
}

/// Everything that can be chosen.
fn rows(themes: &[Theme]) -> Vec<Row> {
    let built_in = [
        (ThemeChoice::Auto, "as the terminal asks for"),
        (ThemeChoice::Dark, "for dark backgrounds"),
        (ThemeChoice::Light, "for light backgrounds"),
    ];
    let built_in = built_in.into_iter().map(|(choice, detail)| Row {
        choice,
        detail: detail.into(),
    });
    let named = themes.iter().map(|theme| Row {
        choice: ThemeChoice::Named(theme.name().into()),
        detail: match theme.kind() {
            bezel_presentation::theme::ThemeKind::Dark => "for dark backgrounds".into(),
            bezel_presentation::theme::ThemeKind::Light => "for light backgrounds".into(),
        },
    });
    built_in.chain(named).collect()
}

/// Lets the person look through the themes; `None` when they chose none.
async fn pick(
    context: &TuiContext,
    cx: &bezel_context::Context,
    rows: Vec<Row>,
    current: ThemeChoice,
) -> Option<ThemeChoice> {
    let height = u16::try_from(rows.len())
        .unwrap_or(u16::MAX)
        .saturating_add(picker::SAMPLE_ROWS + 2);
    let (picker, chosen) = Picker::new(rows, current, context.themes.clone());
    let overlay = Overlay::new(picker)
        .title("Theme")
        .hints("enter choose · esc cancel")
        .placement(OverlayPlacement::Center { width: 60, height });
    let overlay = context.ui.open(overlay);
    let chosen = tokio::select! {
        biased;
        chosen = chosen => chosen.ok(),
        () = overlay.closed() => None,
        _ = cx.cancelled() => None,
    };
    overlay.close();
    chosen
}

#[cfg(test)]
mod tests;
