//! Urgent work first, and a tenant that nobody else can hold up: priorities order a queue, namespaces keep tenants apart.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY` (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example priorities_and_namespaces

use baton::{Client, ClientError, Context, StepError, Worker, WorkflowError, WorkflowHandle};

pub async fn export(ctx: Context, what: String) -> Result<String, WorkflowError> {
    ctx.step("export", || write(&what)).await
}

async fn write(what: &str) -> Result<String, StepError> {
    println!("exporting {what}");
    Ok(format!("{what}.csv"))
}

/// Three exports of one tenant; 9 goes first, 0 last, and 5 is what nobody asked about.
pub async fn start_exports(client: &Client, tenant: &str) -> Result<Vec<WorkflowHandle>, ClientError> {
    let start = |what: &str| client.start("export", &what).namespace(tenant).queue("exports");
    Ok(vec![
        start("everything").priority(0).await?,
        start("this month").await?,
        start("what the auditor waits for").priority(9).await?,
    ])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let client = Client::connect(&url).await?;
    // A namespace is made when it is first named. By hand, it can have limits: `baton namespace create`.
    let exports = start_exports(&client, "acme").await?;

    // Sees nothing of other tenants, and does one thing at a time.
    let mut worker = Worker::builder(&url, "exports").namespace("acme").max_concurrent(1).build().await?;
    worker.register("export", export);
    tokio::spawn(worker.run_until_signal());
    for handle in exports {
        println!("{}", handle.result::<String>().await?);
    }
    Ok(())
}
