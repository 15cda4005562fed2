//! The accounts dialog: which providers have a credential and from where. The credential itself is never here.

use bezel_accounts_contract::{Account, AccountsClient, AccountsState, CredentialSource};
use bezel_api_tui::{
    Command, CommandResult, Confirm, Facet, FacetError, Namespace, Select, SelectItem, Toast,
    TuiContext, TuiFacet,
};
use bezel_context::Context;

/// The key in the list that forgets a credential.
const REMOVE: &str = "ctrl+d";

/// The terminal facet of accounts.
pub fn facet() -> TuiFacet {
    Facet::new("accounts", setup).requires::<AccountsClient>(Namespace::Session)
}

async fn setup(cx: TuiContext) -> Result<(), FacetError> {
    let accounts: AccountsClient = cx.session.use_service();
    let context = cx.clone();
    let show = Command::new("accounts.show", "Show accounts")
        .description("Which providers have a key, and from where")
        .slash("accounts")
        .run(move |cx, _| {
            let (context, accounts) = (context.clone(), accounts.clone());
            async move { show(&context, &cx, &accounts).await }
        });
    cx.commands.add(show);
    Ok(())
}

async fn show(context: &TuiContext, cx: &Context, accounts: &AccountsClient) -> CommandResult {
    loop {
        let select = Select::new("Accounts")
            .placeholder("search providers")
            .empty("no providers are configured")
            .items(items(&accounts.state().get()))
            .action(REMOVE, "remove")?;
        let feed = select.feed();
        let _followed = accounts
            .state()
            .subscribe(move |state, _| feed.replace(items(state)));
        let Some(selected) = context.ui.select(cx, select).await else {
            return Ok(());
        };
        let account = selected.value;
        match (selected.action.is_some(), account.source) {
            (true, Some(CredentialSource::Store)) => {
                remove(context, cx, accounts, &account.provider).await?
            }
            (true, _) => context.ui.toast(Toast::info(format!(
                "nothing is stored for {}: {}",
                account.provider,
                explain(&account)
            ))),
            (false, _) => context.ui.toast(Toast::info(format!(
                "{}: {}",
                account.provider,
                explain(&account)
            ))),
        }
    }
}

async fn remove(
    context: &TuiContext,
    cx: &Context,
    accounts: &AccountsClient,
    provider: &str,
) -> CommandResult {
    let body = format!(
        "Forget the stored key of **{provider}**? Models of it cannot be used until there is another one."
    );
    let confirm = Confirm::new("Remove the key", body)
        .labels("Remove", "Keep")
        .danger();
    if context.ui.confirm(cx, confirm).await {
        accounts.remove(cx, provider.to_owned()).await?;
        context
            .ui
            .toast(Toast::success(format!("the key of {provider} is removed")));
    }
    Ok(())
}

fn items(state: &AccountsState) -> Vec<SelectItem<Account>> {
    let item = |account: &Account| {
        let mark = if account.configured { "●" } else { "○" };
        SelectItem::new(format!("{mark} {}", account.provider), account.clone())
            .detail(origin(account))
    };
    state.providers.iter().map(item).collect()
}

/// Where the credential comes from, in short.
fn origin(account: &Account) -> &'static str {
    match (account.configured, account.source) {
        (true, Some(CredentialSource::Environment)) => "from the environment",
        (true, Some(CredentialSource::Store)) => "stored",
        (true, Some(CredentialSource::Command)) => "from a command",
        (true, None) => "needs no key",
        (false, _) => "no key",
    }
}

/// Where the credential comes from, and how to change that.
fn explain(account: &Account) -> &'static str {
    match (account.configured, account.source) {
        (true, Some(CredentialSource::Environment)) => {
            "its key comes from the shell that started the session; unset the variable there"
        }
        (true, Some(CredentialSource::Store)) => "its key is stored; ctrl+d removes it",
        (true, Some(CredentialSource::Command)) => "its key comes from the configured command",
        (true, None) => "it needs no key",
        (false, _) => {
            "it has no key; set its variable in the shell, or `api_key_env` or `api_key_command` in config.toml"
        }
    }
}

#[cfg(test)]
mod tests;
