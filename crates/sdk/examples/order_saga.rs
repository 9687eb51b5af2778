//! An order in three steps, each of which can be undone: when one fails for good, those before it are undone, the last first.
//!
//! With a server (`cargo run -- serve`) and its admin key in `BATON_API_KEY` (`~/.local/share/baton/admin.key`):
//!
//!     cargo run -p baton --example order_saga

use baton::{Client, Context, RetryPolicy, StepError, Worker, WorkflowError};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub struct Order {
    pub id: u64,
    pub item: String,
    pub cents: u64,
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
pub struct Receipt {
    pub charge: String,
    pub parcel: String,
}

pub async fn process_order(ctx: Context, order: Order) -> Result<Receipt, WorkflowError> {
    ctx.step("reserve", || reserve(&order)).compensate(release).await?;
    let charge = ctx.step("charge", || charge(&order)).compensate(refund).await?;
    let parcel = ctx.step("ship", || ship(&order)).retry(RetryPolicy::attempts(5)).await?;
    Ok(Receipt { charge, parcel })
}

// What follows stands for calls of other services. A worker may fall in the middle of one, and then it is called again: give such services a key by which
// they know that it is the same call, here the number of the order.

async fn reserve(order: &Order) -> Result<String, StepError> {
    println!("reserving {} for order {}", order.item, order.id);
    Ok(format!("reservation-{}", order.id))
}

async fn release(reservation: String) -> Result<(), StepError> {
    println!("releasing {reservation}");
    Ok(())
}

async fn charge(order: &Order) -> Result<String, StepError> {
    println!("charging {} cents for order {}", order.cents, order.id);
    Ok(format!("charge-{}", order.id))
}

async fn refund(charge: String) -> Result<(), StepError> {
    println!("refunding {charge}");
    Ok(())
}

async fn ship(order: &Order) -> Result<String, StepError> {
    match order.item.as_str() {
        // Trying again makes no unicorns.
        "unicorn" => Err(StepError::fatal("there are no unicorns").code("no_such_thing")),
        item => {
            println!("shipping {item}");
            Ok(format!("parcel-{}", order.id))
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let mut worker = Worker::builder(&url, "orders").build().await?;
    worker.register("process_order", process_order);
    tokio::spawn(worker.run_until_signal());

    let client = Client::connect(&url).await?;
    for (id, item) in [(1, "teapot"), (2, "unicorn")] {
        let order = Order { id, item: item.into(), cents: 1_900 };
        let handle = client.start("process_order", &order).queue("orders").await?;
        match handle.result::<Receipt>().await {
            Ok(receipt) => println!("order {id}: {receipt:?}"),
            Err(error) => println!("order {id}: {error}"),
        }
    }
    Ok(())
}
