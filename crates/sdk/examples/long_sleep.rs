//! A trial of thirty days: a welcome, a reminder, an invoice. Nobody holds it while it sleeps; workers and servers may come and go.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY` (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example long_sleep
//!
//! It works until Ctrl-C; started again, even weeks later, it goes on where it was.

use std::time::Duration;

use baton::{Client, Context, StepError, Worker, WorkflowError};

const DAY: Duration = Duration::from_secs(24 * 3_600);

pub async fn trial(ctx: Context, customer: String) -> Result<String, WorkflowError> {
    ctx.step("welcome", || mail(&customer, "welcome")).await?;
    ctx.sleep(27 * DAY).await?;
    ctx.step("remind", || mail(&customer, "three days are left")).await?;
    ctx.sleep(3 * DAY).await?;
    ctx.step("invoice", || async { Ok(format!("invoice for {customer}")) }).await
}

async fn mail(customer: &str, text: &str) -> Result<(), StepError> {
    println!("to {customer}: {text}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let client = Client::connect(&url).await?;
    let handle = client.start("trial", &"Ada").queue("trials").idempotency_key("trial-of-Ada").await?;
    println!("the trial of Ada is {}", handle.run_id());

    let mut worker = Worker::builder(&url, "trials").build().await?;
    worker.register("trial", trial);
    worker.run_until_signal().await?;
    Ok(())
}
