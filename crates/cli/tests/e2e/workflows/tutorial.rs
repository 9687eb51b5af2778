use std::time::Duration;

use baton::{Context, StepError, Worker, WorkflowError};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
    boxes: u32,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    charge: String,
    approved_by: String,
    parcel: String,
}

async fn process_order(ctx: Context, order: Order) -> Result<Receipt, WorkflowError> {
    let charge = ctx.step("charge", || charge(order.id)).compensate(refund).await?;
    ctx.step("pack", || pack(order.id, order.boxes)).await?;
    ctx.publish(&"waits for approval")?;
    let approved_by: String = ctx.signal("approved").await?;
    ctx.sleep(Duration::from_secs(5)).await?;
    let parcel = ctx.step("ship", || ship(order.id)).await?;
    Ok(Receipt { charge, approved_by, parcel })
}

async fn charge(order: u64) -> Result<String, StepError> {
    println!("order {order}: charging");
    Ok(format!("charge-{order}"))
}

async fn refund(charge: String) -> Result<(), StepError> {
    println!("{charge}: refunding");
    Ok(())
}

async fn pack(order: u64, boxes: u32) -> Result<(), StepError> {
    for number in 1..=boxes {
        println!("order {order}: packing box {number} of {boxes}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

async fn ship(order: u64) -> Result<String, StepError> {
    println!("order {order}: shipping");
    Ok(format!("parcel-{order}"))
}

#[tokio::main]
async fn main() -> Result<(), baton::ClientError> {
    let url = std::env::var("BATON_URL").unwrap_or("http://127.0.0.1:7400".into());
    let mut worker = Worker::builder(url, "orders").build().await?;
    worker.register("process_order", process_order);
    println!("waiting for orders");
    worker.run_until_signal().await
}
