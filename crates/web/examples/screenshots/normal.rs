//! An hour of a shop: what a server looks like that somebody uses. It begins at eight on a Tuesday.

use baton_core::Millis;
use baton_core::RunId;
use serde_json::{Value, json};

use crate::common::{KEY, START, Site};
use crate::crew::{Crew, Hire, from};
use crate::machines::Paper;
use crate::pages::Shot;

const MINUTE: Millis = 60_000;
/// Tuesday, the 10th of November 2026, 08:30 in UTC.
const BEGIN: Millis = 1_794_299_400_000;

const IMAGES: Hire = Hire {
    name: "images-1",
    queue: "images",
    types: &["thumbnail"],
    slots: 4,
    takes: (2_000, 9_000),
    fails: 4,
    errors: &[("decode", "cannot decode upload-{}.heic: unexpected end of file")],
};
const MAIL: Hire = Hire {
    name: "mail-1",
    queue: "mail",
    types: &["receipt", "reminder"],
    slots: 4,
    takes: (900, 5_200),
    fails: 6,
    errors: &[("rejected", "550 5.1.1 mailbox of customer {} is unavailable")],
};
const STOCK: Hire = Hire {
    name: "stock-1",
    queue: "stock",
    types: &["sync-supplier"],
    slots: 3,
    takes: (4_000, 14_000),
    fails: 340,
    errors: &[
        ("upstream", "503 from api.northwind.example: no answer in 30 s (request {})"),
        ("upstream", "503 from api.northwind.example: no answer in 31 s (request {})"),
        ("upstream", "503 from api.northwind.example: no answer in 30 s (request {})"),
        ("contract", "supplier 8812 sent a price without a currency in line {}"),
        ("timeout", "took longer than its timeout of 60 s"),
    ],
};
const ORDERS: Hire = Hire {
    name: "orders-1",
    queue: "orders",
    types: &["process_order@7", "refund_order@2"],
    slots: 8,
    takes: (0, 0),
    fails: 0,
    errors: &[],
};
const PACKING: Hire = Hire { name: "packing-1", queue: "packing", types: &["pack_box@3"], ..ORDERS };
const BUILDS: Hire = Hire { name: "mac-1", queue: "builds", types: &["ios", "linux"], slots: 2, ..ORDERS };

/// Lets the hour pass. Returns the pages worth a picture.
pub async fn hour(site: &Site) -> Vec<Shot> {
    site.clock.advance(BEGIN - START);
    let mut crew = Crew::new(site);
    administration(site).await;
    for hire in [IMAGES, Hire { name: "images-2", ..IMAGES }, Hire { name: "images-3", ..IMAGES }] {
        crew.hire(hire).await;
    }
    let doomed = crew.hire(MAIL).await;
    crew.hire(Hire { name: "mail-2", ..MAIL }).await;
    crew.hire(STOCK).await;
    let silent = crew.hire(Hire { name: "stock-2", ..STOCK }).await;
    let orders = [crew.hire(ORDERS).await, crew.hire(Hire { name: "orders-2", ..ORDERS }).await];
    let packing = crew.hire(PACKING).await;
    let macs = [crew.hire(BUILDS).await, crew.hire(Hire { name: "mac-2", ..BUILDS }).await];
    schedules(site).await;
    crew.submit("reports", "monthly-report", (1..=3).map(|month| json!({ "month": month }))).await;
    site.client.pause_queue("default", "reports", &from(json!({}))).await.expect("a queue is paused");

    crew.trades = true;
    for minute in 0..52_u64 {
        crew.pass(MINUTE - 2_500 * (minute as Millis % 2)).await;
        if minute == 34 {
            digests(&crew).await;
        }
        if minute == 43 {
            crew.hands[doomed].is_alive = false;
        }
        if minute % 9 == 2 {
            older_orders(&mut crew, orders[1], minute).await;
        }
        if minute % 12 == 5 {
            older_build(&mut crew, macs[1], minute).await;
        }
    }
    let order = the_order(&mut crew, orders, packing).await;
    let build = the_build(&mut crew, macs).await;
    let paper = Paper::of(site);
    crew.paper = Some(paper.clone());
    machines(&mut crew, &paper).await;
    let draining = crew.hands[2].id.clone();
    crew.delay(2, 4 * MINUTE);
    site.client.drain(&draining).await.expect("a worker drains");
    finale(&mut crew, orders[1]).await;
    crew.hands[silent].is_alive = false;
    crew.pass(11_500).await;
    pages(site, order, build).await
}

async fn administration(site: &Site) {
    for (name, scopes) in [("shop", "submit"), ("workers", "worker"), ("grafana", "read"), ("ci", "submit")] {
        let key = json!({ "name": name, "scopes": [scopes], "expires_in_ms": 7_776_000_000_u64 });
        site.client.create_key(&from(key)).await.expect("a key is made");
    }
    for (name, description) in [("mobile", "builds of the apps"), ("staging", "what is tried before customers see it")]
    {
        let namespace = json!({ "name": name, "description": description });
        site.client.create_namespace(&from(namespace)).await.expect("a namespace is made");
    }
    for (name, url, kinds) in [
        ("ops-chat", "http://localhost:9/hooks/7f3a", json!(["run.ended"])),
        ("warehouse", "http://localhost:9/warehouse/baton", json!(["runner", "worker"])),
    ] {
        let webhook = json!({ "name": name, "url": url, "filter": { "kinds": kinds } });
        site.client.create_webhook(&from(webhook)).await.expect("a webhook is made");
    }
    let change = json!({ "set": { "backlog_max": 200_000 } });
    site.client.change_settings(&from(change)).await.expect("a setting is changed");
}

async fn schedules(site: &Site) {
    for (id, cron, zone, queue, kind, note) in [
        ("sync-suppliers", "*/5 * * * *", "UTC", "stock", "sync-supplier", "prices and stock of all suppliers"),
        ("nightly-report", "30 2 * * *", "Europe/Berlin", "reports", "nightly-report", "for the people who count"),
        ("reminders", "0 * * * 1-5", "Europe/Berlin", "mail", "reminder", "carts that were left"),
        ("clean-uploads", "15 4 * * 0", "UTC", "images", "thumbnail", ""),
    ] {
        let run = json!({ "queue": queue, "type": kind, "input": { "all": true } });
        let schedule = json!({ "id": id, "cron": cron, "time_zone": zone, "note": note, "run": run });
        site.client.create_schedule(&from(schedule)).await.expect("a schedule is made");
    }
    let paused = site.client.pause_schedule("default", "clean-uploads", &from(json!({}))).await;
    paused.expect("a schedule is paused");
}

/// Somebody has submitted what no worker serves.
async fn digests(crew: &Crew<'_>) {
    crew.submit("mail", "digest", (0..412).map(|number| json!({ "customer": 7_000 + number }))).await;
}

async fn older_orders(crew: &mut Crew<'_>, hand: usize, minute: u64) {
    for part in 0..3 {
        let number = 20_340 + minute * 2 + part;
        crew.start_flow("process_order", "7", &format!("order-{number}"), &json!({ "id": number, "boxes": 1 })).await;
        let flow = crew.take_flow(hand).await;
        crew.fact(&flow, 0, "version", &json!(7)).await;
        crew.step(&flow, 1, "reserve_stock", 300, &json!({ "reserved": 3 })).await;
        crew.step(&flow, 2, "charge_card", 800, &json!({ "charge": format!("ch_{number}"), "amount": 4_900 })).await;
        match (minute + part) % 4 {
            0 => {
                crew.fail_flow(&flow, "card_declined", "the bank declined the card of order 20361: insufficient funds")
                    .await
            }
            1 => crew.suspend(&flow, None, Some(3_600_000), 0).await,
            2 => crew.suspend(&flow, Some((3, "until the parcel is due", 172_800_000)), None, 0).await,
            _ => crew.complete_flow(&flow, &json!({ "invoice": format!("in_{number}") })).await,
        }
    }
    let refund = 20_100 + minute;
    crew.start_flow("refund_order", "2", &format!("order-{refund}"), &json!({ "id": refund })).await;
    let flow = crew.take_flow(hand).await;
    crew.step(&flow, 0, "refund_card", 1_400, &json!({ "refund": "re_118" })).await;
    crew.complete_flow(&flow, &json!({ "refunded": 4_900 })).await;
}

/// The order that the picture of a run shows: its first worker dies in the middle, and comes back too late.
async fn the_order(crew: &mut Crew<'_>, orders: [usize; 2], packing: usize) -> RunId {
    let input = json!({ "id": 20_417, "boxes": 10, "customer": "acme", "express": true });
    let run = crew.start_flow("process_order", "7", "order-20417", &input).await;
    crew.pass(380).await;
    let first = crew.take_flow(orders[0]).await;
    crew.fact(&first, 0, "version", &json!(7)).await;
    crew.step(&first, 1, "validate_order", 240, &json!({ "ok": true })).await;
    let error = "503 from stock.shop.internal: the warehouse is being counted";
    crew.fails(&first, 2, "reserve_stock", 1, 700, error).await;
    crew.fails(&first, 2, "reserve_stock", 2, 900, error).await;
    crew.step(&first, 2, "reserve_stock", 1_300, &json!({ "reserved": 10, "shelf": "C-14" })).await;
    crew.begin(&first, 3, "charge_card").await;
    crew.pass(4_400).await;
    crew.hands[orders[0]].is_alive = false;
    crew.pass(16_500).await;
    let second = crew.take_flow(orders[1]).await;
    crew.begin(&second, 3, "charge_card").await;
    crew.pass(1_100).await;
    let late = baton::proto::CompleteRun { run_id: None, lease: first.token.clone(), output: None };
    let _ = crew.site.client.complete(&run.to_string(), &late).await;
    crew.pass(1_900).await;
    crew.step(&second, 3, "charge_card", 300, &json!({ "charge": "ch_8812", "amount": 41_900 })).await;
    let children = crew.children(&second, 4, "pack_box", 10).await;
    for (number, _) in children.iter().enumerate() {
        let parcel = crew.take_flow(packing).await;
        crew.step(&parcel, 0, "fetch", 500, &json!({ "shelf": "C-14" })).await;
        crew.step(&parcel, 1, "wrap", 900 + 130 * number as i64, &json!({ "kg": 2.4 })).await;
        crew.complete_flow(&parcel, &json!({ "box": number + 1, "kg": 2.4 })).await;
        crew.child_ended(&second, 4 + number as u32, "pack_box", &json!({ "box": number + 1, "kg": 2.4 })).await;
    }
    crew.step(&second, 14, "print_label", 400, &json!({ "label": "DHL 00340434161094042557" })).await;
    let who = json!({ "by": "ada@shop.example" });
    let number = crew.send_signal(run, "address_confirmed", &who).await;
    crew.pass(900).await;
    crew.take_signal(&second, 15, "address_confirmed", number, &who).await;
    crew.suspend(&second, Some((16, "cooling off", 5 * MINUTE)), None, 11).await;
    crew.pass(5 * MINUTE + 2_600).await;
    let third = crew.take_flow(orders[1]).await;
    crew.woke(&third, 16, "cooling off").await;
    crew.step(&third, 17, "recheck_fraud", 6_300, &json!({ "score": 0.07 })).await;
    crew.suspend(&third, None, Some(3_600_000), 11).await;
    run
}

async fn older_build(crew: &mut Crew<'_>, hand: usize, minute: u64) {
    crew.build("linux", "shop-api", &format!("2.14.{minute}")).await;
    let build = crew.take_build(hand).await;
    crew.say(&build, ["Cloning https://git.shop.internal/shop-api.git (main)".to_owned()]).await;
    crew.compile(&build, 0, 24).await;
    if minute == 17 {
        let error = "error: test payments::refunds::a_refund_is_idempotent failed: assertion `left == right` failed";
        crew.say(&build, [error.to_owned()]).await;
        crew.fail_build(&build, "the recipe ended with status 101: 1 of 418 tests failed").await;
    } else {
        crew.deliver(&build, "shop-api.tar.zst", 48_100).await;
    }
}

/// The build of an app that is handed over while one looks.
async fn the_build(crew: &mut Crew<'_>, macs: [usize; 2]) -> RunId {
    let run = crew.build("ios", "shop-app", "5.2.0").await;
    crew.pass(2_100).await;
    let first = crew.take_build(macs[0]).await;
    let begin =
        ["Cloning https://git.shop.internal/shop-app.git (main)", "HEAD is now at 41c07be Refunds: keep the currency"];
    crew.say(&first, begin.map(str::to_owned)).await;
    crew.compile(&first, 0, 40).await;
    crew.hands[macs[0]].is_alive = false;
    crew.pass(17_000).await;
    let second = crew.take_build(macs[1]).await;
    crew.say(&second, begin.map(str::to_owned)).await;
    crew.compile(&second, 0, 74).await;
    crew.say(
        &second,
        ["error: PaymentsTests.testRefundKeepsCurrency: XCTAssertEqual failed (\"EUR\") is not equal to (\"USD\")"
            .into()],
    )
    .await;
    crew.compile(&second, 74, 80).await;
    run
}

async fn machines(crew: &mut Crew<'_>, paper: &Paper) {
    crew.pool("linux-arm", 4, 12).await;
    crew.pool("linux-x64", 0, 4).await;
    crew.settle().await;
    paper.wake(crew.site, 6).await;
    crew.settle().await;
    for (run, count) in [("ci-4187", 2), ("ci-4188", 1), ("ci-4189", 3)] {
        crew.claim_machines("linux-arm", run, count).await;
        crew.settle().await;
        paper.obey(crew.site, 3).await;
    }
    paper.wake(crew.site, 4).await;
    crew.settle().await;
    crew.claim_machines("linux-arm", "ci-4190", 5).await;
    crew.settle().await;
    paper.obey(crew.site, 1).await;
}

/// The last half minute: a little of everything, so that the newest runs are not all alike.
async fn finale(crew: &mut Crew<'_>, orders: usize) {
    crew.trades = false;
    crew.pass(25_000).await;
    let refund = crew.start_flow("refund_order", "2", "order-20398", &json!({ "id": 20_398 })).await;
    let flow = crew.take_flow(orders).await;
    assert_eq!(refund, flow.run);
    crew.step(&flow, 0, "check_return", 700, &json!({ "shelf": "R-2" })).await;
    crew.begin(&flow, 1, "refund_card").await;
    crew.start_flow("process_order", "7", "order-20431", &json!({ "id": 20_431, "boxes": 2 })).await;
    let flow = crew.take_flow(orders).await;
    crew.step(&flow, 0, "reserve_stock", 400, &json!({ "reserved": 2 })).await;
    crew.suspend(&flow, None, Some(3_600_000), 0).await;
    crew.start_flow("process_order", "7", "order-20432", &json!({ "id": 20_432, "boxes": 1 })).await;
    let flow = crew.take_flow(orders).await;
    crew.step(&flow, 0, "reserve_stock", 300, &json!({ "reserved": 1 })).await;
    crew.fail_flow(&flow, "card_declined", "the bank declined the card of order 20432: insufficient funds").await;
    crew.submit("mail", "digest", (0..2).map(|number| json!({ "customer": 7_412 + number }))).await;
    let retry = json!({ "queue": "stock", "type": "sync-prices", "delay_ms": 240_000, "key": "globex" });
    crew.site.client.submit(&from(retry)).await.expect("a run is taken");
    let unwanted = json!({ "queue": "reports", "type": "monthly-report", "input": { "month": 4 } });
    let unwanted = crew.site.client.submit(&from(unwanted)).await.expect("a run is taken").id;
    crew.site.client.cancel(&unwanted).await.expect("a run is cancelled");
    crew.submit("images", "thumbnail", (0..2).map(|number| json!({ "upload": 92_000 + number }))).await;
    crew.submit("mail", "receipt", (0..1).map(|number| json!({ "order": 20_430 + number }))).await;
    crew.pass(5_000).await;
    crew.submit("images", "thumbnail", (0..2).map(|number| json!({ "upload": 92_010 + number }))).await;
    crew.submit("stock", "sync-supplier", [json!({ "key": "acme", "page": 12 })]).await;
}

/// Every page, with something to see on it.
async fn pages(site: &Site, order: RunId, build: RunId) -> Vec<Shot> {
    let failed = of(site, "/api/v1/runs?state=failed&limit=1", "runs").await;
    let completed = of(site, "/api/v1/runs?state=completed&limit=1", "runs").await;
    let running = of(site, "/api/v1/runs?state=running&queue=images&limit=1", "runs").await;
    let digest = of(site, "/api/v1/runs?state=pending&queue=mail&type=digest&limit=1", "runs").await;
    let worker = of(site, "/api/v1/workers?status=online&limit=1", "workers").await;
    let machine = of(site, "/api/v1/pools/linux-arm/runners?state=running&limit=1", "runners").await;
    let webhook = of(site, "/api/v1/webhooks?limit=1", "webhooks").await;
    let mut shots = crate::pages::everywhere();
    shots.extend([
        Shot::new("run-order", format!("/runs/{order}")),
        Shot::new("run-order-step", format!("/runs/{order}?step=3")),
        Shot::new("run-build", format!("/runs/{build}")),
        Shot::new("run-failed", format!("/runs/{failed}")),
        Shot::new("run-completed", format!("/runs/{completed}")),
        Shot::new("run-running", format!("/runs/{running}")),
        Shot::new("run-waiting", format!("/runs/{digest}")),
        Shot::new("runs-failed", "/runs?state=failed".into()),
        Shot::new("runs-nothing", "/runs?q=state:failed+queue:images+type:digest".into()),
        Shot::new("queue", "/queues/mail".into()),
        Shot::new("queue-paused", "/queues/reports".into()),
        Shot::new("worker", format!("/workers/{worker}")),
        Shot::new("pool", "/pools/linux-arm".into()),
        Shot::new("machine", format!("/pools/linux-arm/machines/{machine}")),
        Shot::new("schedule", "/schedules/sync-suppliers".into()),
        Shot::new("type", "/workflows/types/process_order".into()),
        Shot::new("webhook", format!("/webhooks/{webhook}")),
        Shot::new("form-pool", "/form/pools/linux-arm/edit".into()),
        Shot::new("form-schedule", "/form/schedules/new".into()),
    ]);
    shots
}

/// The identifier of the first of a list.
async fn of(site: &Site, path: &str, list: &str) -> String {
    let found = site.api_as("GET", path, ("x-api-key", KEY), Value::Null).await;
    let first = &found[list][0];
    let id = first["id"].as_str().or(first["worker_id"].as_str()).or(first["runner_id"].as_str());
    id.unwrap_or("none").to_owned()
}
