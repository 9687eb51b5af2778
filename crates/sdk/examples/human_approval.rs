//! An expense that somebody has to approve: the workflow waits for a signal, reminds once a day, and gives up after three days.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY` (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example human_approval

use std::time::Duration;

use baton::{Client, Context, StepError, Worker, WorkflowError};
use serde::{Deserialize, Serialize};

const DAY: Duration = Duration::from_secs(24 * 3_600);

#[derive(Serialize, Deserialize)]
pub struct Expense {
    pub what: String,
    pub cents: u64,
}

#[derive(Serialize, Deserialize)]
pub struct Decision {
    pub approved: bool,
    pub by: String,
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
pub enum Outcome {
    Approved { by: String },
    Rejected { by: String },
    NobodyCared,
}

pub async fn approve_expense(ctx: Context, expense: Expense) -> Result<Outcome, WorkflowError> {
    for day in 1..=3 {
        // For whoever asks with `handle.query()`.
        ctx.publish(&format!("waits for a decision, day {day}"))?;
        match ctx.signal::<Decision>("decision").timeout(DAY).await? {
            Some(Decision { approved: true, by }) => return Ok(Outcome::Approved { by }),
            Some(Decision { approved: false, by }) => return Ok(Outcome::Rejected { by }),
            None => ctx.step("remind", || remind(&expense, day)).await?,
        }
    }
    Ok(Outcome::NobodyCared)
}

async fn remind(expense: &Expense, day: u32) -> Result<(), StepError> {
    println!("reminder {day}: {} for {} cents waits for you", expense.what, expense.cents);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let mut worker = Worker::builder(&url, "expenses").build().await?;
    worker.register("approve_expense", approve_expense);
    tokio::spawn(worker.run_until_signal());

    let client = Client::connect(&url).await?;
    let expense = Expense { what: "a chair".into(), cents: 24_900 };
    let handle = client.start("approve_expense", &expense).queue("expenses").await?;
    // Somebody else, days later: `client.workflow(run_id)` is the same handle anywhere.
    handle.signal("decision", &Decision { approved: true, by: "Grace".into() }).await?;
    println!("{:?}", handle.result::<Outcome>().await?);
    Ok(())
}
