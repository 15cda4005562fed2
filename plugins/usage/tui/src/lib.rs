//! Usage in the status line: how full the context is, and what the session cost.

use bezel_api_tui::{
    Command, Facet, FacetError, Message, Namespace, Placement, Slot, TuiContext, TuiFacet, segment,
};
use bezel_presentation::text::Role;
use bezel_presentation::{StyledLine, StyledSpan, format};
use bezel_usage_contract::{UsageClient, UsageState};

/// From this share of the window on it is worth attention, in percent.
const FULLER: u64 = 70;
/// From this share on the next turns may not fit, in percent.
const FULL: u64 = 90;

/// The terminal facet of usage.
pub fn facet() -> TuiFacet {
    Facet::new("usage", setup).requires::<UsageClient>(Namespace::Session)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    let usage: UsageClient = cx.session.use_service();
    let (state, attachment) = (usage.state(), cx.session.attachment());
    let shown = move |_: &bezel_api_tui::RenderContext<'_>| {
        (attachment.get().is_attached() && state.is_ready() && !state.is_stale())
            .then(|| line(&state.get()))?
    };
    cx.slots.add(
        Slot::StatusRight,
        Placement::order(0).importance(40),
        segment(shown),
    );
    let ui = cx.ui.clone();
    cx.own(usage.state().subscribe(move |_, _| ui.redraw()));
    let ui = cx.ui.clone();
    let show = Command::new("usage.show", "Show what the session used")
        .description("Tokens, context and cost")
        .slash("usage")
        .alias("cost")
        .run(move |cx, _| {
            let (ui, text) = (ui.clone(), report(&usage.state().get()));
            async move {
                ui.message(&cx, Message::new("Usage", text)).await;
                Ok(())
            }
        });
    cx.commands.add(show);
    Ok(())
}

/// `12% of 200k · $0.42`; nothing while nothing is known.
fn line(usage: &UsageState) -> Option<StyledLine> {
    if usage.context_tokens == 0 && usage.cost.is_none() {
        return None;
    }
    let mut line = StyledLine::default();
    let percent = usage
        .context_tokens
        .saturating_mul(100)
        .checked_div(usage.context_window);
    if let Some(percent) = percent {
        let role = match percent {
            FULL.. => Role::Error,
            FULLER.. => Role::Warning,
            _ => Role::Muted,
        };
        line.push(StyledSpan::new(
            format::percent(usage.context_tokens, usage.context_window),
            role,
        ));
        line.push(StyledSpan::new(
            format!(" of {}", format::tokens(usage.context_window)),
            Role::Muted,
        ));
    } else {
        line.push(StyledSpan::new(
            format!("{} tokens", format::tokens(usage.context_tokens)),
            Role::Muted,
        ));
    }
    if let Some(cost) = usage.cost {
        line.push(StyledSpan::new(" · ", Role::Faint));
        line.push(StyledSpan::new(format::dollars(cost), Role::Muted));
    }
    Some(line)
}

/// All numbers, as Markdown.
fn report(usage: &UsageState) -> String {
    let count = |tokens: u64| format::tokens(tokens);
    let context = match usage.context_window {
        0 => format!("{} tokens", count(usage.context_tokens)),
        window => format!(
            "{} of {} ({})",
            count(usage.context_tokens),
            count(window),
            format::percent(usage.context_tokens, window)
        ),
    };
    let rows = [
        ("Context", context),
        ("Requests", usage.requests.to_string()),
        ("Input", count(usage.total.input)),
        ("Read from cache", count(usage.total.cache_read)),
        ("Written to cache", count(usage.total.cache_write)),
        ("Output", count(usage.total.output)),
        ("of that thinking", count(usage.total.reasoning)),
        (
            "Cost",
            usage
                .cost
                .map_or_else(|| "no price is known".to_owned(), format::dollars),
        ),
    ];
    let rows: String = rows
        .iter()
        .map(|(name, value)| format!("| {name} | {value} |\n"))
        .collect();
    format!("| | |\n|:--|--:|\n{rows}")
}

#[cfg(test)]
mod tests {
    use bezel_session_types::Usage;

    use super::*;

    fn usage(context_tokens: u64, context_window: u64, cost: Option<f64>) -> UsageState {
        let total = Usage {
            input: 1200,
            output: 800,
            cache_read: 45_000,
            cache_write: 0,
            reasoning: 300,
        };
        UsageState {
            total,
            cost,
            context_tokens,
            context_window,
            requests: 3,
        }
    }

    #[test]
    fn the_status_says_how_full_the_context_is_and_what_it_cost() {
        let text = |usage: &UsageState| line(usage).map(|line| line.to_text());
        assert_eq!(
            text(&usage(24_000, 200_000, Some(0.4242))).as_deref(),
            Some("12% of 200k · $0.42")
        );
        assert_eq!(text(&usage(24_000, 0, None)).as_deref(), Some("24k tokens"));
        assert_eq!(text(&UsageState::default()), None);
    }

    #[test]
    fn a_context_that_fills_up_changes_its_colour() {
        let role = |tokens| {
            line(&usage(tokens, 100, None)).expect("a line").spans[0]
                .style
                .role
        };
        assert_eq!(
            [role(69), role(70), role(89), role(90), role(120)],
            [
                Role::Muted,
                Role::Warning,
                Role::Warning,
                Role::Error,
                Role::Error
            ]
        );
    }

    #[test]
    fn the_report_has_every_number() {
        let report = report(&usage(24_000, 200_000, None));
        for part in [
            "24k of 200k (12%)",
            "1.2k",
            "45k",
            "800",
            "300",
            "no price is known",
        ] {
            assert!(report.contains(part), "{part} is not in {report}");
        }
    }
}
