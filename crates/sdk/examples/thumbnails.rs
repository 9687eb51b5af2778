//! Steps that compute: on threads beside the runtime, all cores at once. docs/workflows.md says
//! what blocks.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY`
//! (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example thumbnails

use baton::{Client, Context, StepError, Worker, WorkflowError};

pub async fn make_thumbnails(ctx: Context, seeds: Vec<u64>) -> Result<Vec<u64>, WorkflowError> {
    let asked = ctx.clone();
    let step = |seed| {
        let asked = asked.clone();
        ctx.step_blocking("thumbnail", move || thumbnail(&asked, seed))
    };
    ctx.parallel(50, seeds.into_iter().map(step)).await
}

/// Computes without an `.await`, and stops when nobody wants the result any more.
fn thumbnail(ctx: &Context, seed: u64) -> Result<u64, StepError> {
    let mut pixel = seed;
    for line in 0..1_000 {
        if line % 100 == 0 && ctx.cancel_requested() {
            return Err(StepError::fatal("cancelled"));
        }
        for _ in 0..1_000 {
            pixel = pixel.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
    }
    Ok(pixel)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let mut worker = Worker::builder(&url, "thumbnails").build().await?;
    worker.register("make_thumbnails", make_thumbnails);
    tokio::spawn(worker.run_until_signal());

    let client = Client::connect(&url).await?;
    let seeds: Vec<u64> = (0..200).collect();
    let handle = client.start("make_thumbnails", &seeds).queue("thumbnails").await?;
    println!("{} thumbnails", handle.result::<Vec<u64>>().await?.len());
    Ok(())
}
