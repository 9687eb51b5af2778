//! A report every night at three, by the clock of the people who read it. The schedule is made once; starting this again changes nothing.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY` (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example nightly_report
//!
//! It works until Ctrl-C. `cargo run -- schedule trigger nightly-report` starts a report without waiting for the night.

use baton::proto::{CreateSchedule, ScheduledRun};
use baton::{Client, Context, StepError, Worker, WorkflowError};

pub async fn report(ctx: Context, title: String) -> Result<String, WorkflowError> {
    let sales = ctx.step("count", count_sales).await?;
    let text = format!("{title}: {sales} sales");
    ctx.step("send", || send(&text)).await?;
    Ok(text)
}

async fn count_sales() -> Result<u64, StepError> {
    Ok(42)
}

async fn send(text: &str) -> Result<(), StepError> {
    println!("{text}");
    Ok(())
}

pub fn nightly() -> Result<CreateSchedule, serde_json::Error> {
    let mut run = ScheduledRun::workflow("reports", "report");
    run.input = Some(serde_json::value::to_raw_value("Last night")?);
    Ok(CreateSchedule {
        time_zone: Some("Europe/Berlin".into()),
        note: "for those who get up early".into(),
        ..CreateSchedule::new("nightly-report", "0 3 * * *", run)
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let client = Client::connect(&url).await?;
    let schedule = client.create_schedule(&nightly()?).await?;
    println!("the next reports come at {:?}", schedule.next_fires);

    let mut worker = Worker::builder(&url, "reports").build().await?;
    worker.register("report", report);
    worker.run_until_signal().await?;
    Ok(())
}
