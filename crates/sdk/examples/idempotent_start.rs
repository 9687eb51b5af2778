//! An order that is paid once, however often the button is pressed: a start with a key can be repeated without harm.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY` (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example idempotent_start

use baton::{Client, ClientError, Context, Worker, WorkflowError, WorkflowHandle};

pub async fn pay(ctx: Context, order: u64) -> Result<String, WorkflowError> {
    // The same when the step is repeated, so that the bank knows it is the same payment.
    let payment = ctx.random_id();
    ctx.step("pay", || async {
        println!("paying for order {order}");
        Ok(payment.clone())
    })
    .await
}

/// May be called again after a lost answer, a crash, or a second press of the button: the same order is the same workflow.
pub async fn checkout(client: &Client, order: u64) -> Result<WorkflowHandle, ClientError> {
    client.start("pay", &order).queue("payments").idempotency_key(format!("pay-{order}")).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let mut worker = Worker::builder(&url, "payments").build().await?;
    worker.register("pay", pay);
    tokio::spawn(worker.run_until_signal());

    let client = Client::connect(&url).await?;
    for _ in 0..2 {
        let handle = checkout(&client, 7).await?;
        println!("{} (new: {}): {}", handle.run_id(), !handle.existed(), handle.result::<String>().await?);
    }
    Ok(())
}
