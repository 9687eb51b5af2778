//! Looks at a parcel once an hour until it has arrived, for as long as that takes. Once a day it continues as new, so that what is remembered of it stays small.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY` (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example poller
//!
//! It works until Ctrl-C; started again, it goes on where it was.

use std::time::Duration;

use baton::{Client, Context, StepError, Worker, WorkflowError};
use serde::{Deserialize, Serialize};

const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Serialize, Deserialize)]
pub struct Parcel {
    pub number: String,
    /// How often it was looked at, in all runs together.
    pub looks: u32,
}

pub async fn follow_parcel(ctx: Context, mut parcel: Parcel) -> Result<u32, WorkflowError> {
    for _ in 0..24 {
        parcel.looks += 1;
        if ctx.step("look", || has_arrived(&parcel)).await? {
            return Ok(parcel.looks);
        }
        ctx.sleep(HOUR).await?;
    }
    ctx.continue_as_new(&parcel)
}

/// Stands for a call of the carrier, whose parcels take two and a half days.
async fn has_arrived(parcel: &Parcel) -> Result<bool, StepError> {
    println!("look {} at {}", parcel.looks, parcel.number);
    Ok(parcel.looks > 60)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let client = Client::connect(&url).await?;
    let parcel = Parcel { number: "JD0002".into(), looks: 0 };
    // However often this is started: one follower for each parcel.
    let handle = client.start("follow_parcel", &parcel).queue("parcels").idempotency_key("follow-JD0002").await?;
    println!("{} follows {}", handle.run_id(), parcel.number);

    let mut worker = Worker::builder(&url, "parcels").build().await?;
    worker.register("follow_parcel", follow_parcel);
    worker.run_until_signal().await?;
    Ok(())
}
