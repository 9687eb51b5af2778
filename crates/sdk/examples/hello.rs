//! The smallest workflow: one step, whose result outlives whoever made it.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY` (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example hello

use baton::{Client, Context, Worker, WorkflowError};

pub async fn greet(ctx: Context, name: String) -> Result<String, WorkflowError> {
    ctx.step("greet", || async { Ok(format!("Hello, {name}!")) }).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let mut worker = Worker::builder(&url, "greetings").build().await?;
    worker.register("greet", greet);
    tokio::spawn(worker.run_until_signal());

    let client = Client::connect(&url).await?;
    let handle = client.start("greet", &"Ada").queue("greetings").await?;
    println!("{}", handle.result::<String>().await?);
    Ok(())
}
