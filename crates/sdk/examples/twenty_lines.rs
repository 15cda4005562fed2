//! Twenty lines: an agent with a tool of this program, on the model that the person has configured.
use bezel_sdk::{Bezel, Builder, Error};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Shelf {
    /// Which shelf, from 1.
    number: usize,
}

/// Begins a session here, asks one thing in it, and ends.
pub async fn ask(builder: Builder) -> Result<String, Error> {
    let tool = |shelf: Shelf, _| async move {
        let books = ["Emma, Persuasion", "Moby-Dick, Typee"];
        let books = books.get(shelf.number.wrapping_sub(1));
        books.copied().ok_or("there are two shelves")
    };
    let builder = builder.tool("shelf", "Says which books are on a shelf.", tool);
    let bezel = builder.allow("shelf").start().await?;
    let session = bezel.session(".").await?;
    let answer = session.prompt("Which books are on shelf 2?").await?;
    bezel.stop().await?;
    Ok(answer.into_text())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    println!("{}", ask(Bezel::builder().user_config()).await?);
    Ok(())
}
