//! A thousand items, fifty at a time. Each is a step of its own: a worker that falls in the middle costs the fifty under way, not the rest.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY` (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example fan_out

use baton::{Client, Context, StepError, Worker, WorkflowError};

pub async fn resize_all(ctx: Context, images: Vec<String>) -> Result<u64, WorkflowError> {
    let sizes = ctx.parallel(50, images.iter().map(|image| ctx.step("resize", || resize(image)))).await?;
    Ok(sizes.iter().sum())
}

/// Returns how many bytes came out.
async fn resize(image: &str) -> Result<u64, StepError> {
    Ok(image.len() as u64)
}

pub fn images() -> Vec<String> {
    (0..1_000).map(|number| format!("image-{number:04}.png")).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let mut worker = Worker::builder(&url, "images").build().await?;
    worker.register("resize_all", resize_all);
    tokio::spawn(worker.run_until_signal());

    let client = Client::connect(&url).await?;
    let handle = client.start("resize_all", &images()).queue("images").await?;
    println!("{} bytes", handle.result::<u64>().await?);
    Ok(())
}
