//! Workers that do nothing, for as long as they say, on a clock that is moved by hand.

use std::sync::Arc;
use std::time::Duration;

use baton::proto::{Claim, CompleteRun, FailRun, Heartbeat, RegisterWorker, SubmitBatch, SubmitRun};
use baton_core::Millis;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::common::Site;
use crate::machines::Paper;

/// How far the clock moves before somebody looks for work.
const TICK: Millis = 2_500;
/// How often workers say that they are alive.
const BEAT: Millis = 5_000;
/// Real time for the server's loops after the clock has moved.
const ROOM: Duration = Duration::from_millis(2);

/// What is known of a worker before it begins.
#[derive(Clone, Debug)]
pub struct Hire {
    pub name: &'static str,
    pub queue: &'static str,
    pub types: &'static [&'static str],
    pub slots: u32,
    /// Shortest and longest time that a run takes.
    pub takes: (Millis, Millis),
    /// Of a thousand runs so many fail.
    pub fails: u64,
    /// What is said then, one by one.
    pub errors: &'static [(&'static str, &'static str)],
}

/// A run in the hands of a worker.
#[derive(Clone, Debug)]
struct Held {
    run: String,
    lease: String,
    ends_at: Millis,
}

/// A worker.
#[derive(Debug)]
pub struct Hand {
    pub id: String,
    pub hire: Hire,
    held: Vec<Held>,
    claims: u64,
    /// False: it says nothing more.
    pub is_alive: bool,
    /// False: it takes nothing new.
    pub takes_more: bool,
    /// How busy it says it is.
    load: f64,
}

/// All workers, and those who give them work.
pub struct Crew<'a> {
    pub site: &'a Site,
    pub hands: Vec<Hand>,
    /// Machines whose agents have to say that they are there.
    pub paper: Option<Arc<Paper>>,
    /// True while customers come.
    pub trades: bool,
    dice: u64,
    ticks: u64,
    ticked_at: Millis,
    beat_at: Millis,
}

/// A value from JSON, for requests whose fields are mostly left out.
pub fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a request of the example is right")
}

impl<'a> Crew<'a> {
    pub fn new(site: &'a Site) -> Crew<'a> {
        let now = site.clock.local();
        let (ticked_at, beat_at) = (now, now);
        Crew {
            site,
            hands: Vec::new(),
            paper: None,
            trades: false,
            dice: 0x2545_f491_4f6c_dd1d,
            ticks: 0,
            ticked_at,
            beat_at,
        }
    }

    pub fn now(&self) -> Millis {
        self.site.clock.local()
    }

    /// A number below `sides`.
    pub fn die(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % sides.max(1)
    }

    /// A worker begins.
    pub async fn hire(&mut self, hire: Hire) -> usize {
        let zone = ["eu-central-1a", "eu-central-1b"][self.hands.len() % 2];
        let labels = json!({ "zone": zone });
        let worker: RegisterWorker = from(json!({
            "name": hire.name, "queues": [hire.queue], "types": hire.types, "max_concurrent": hire.slots,
            "hostname": format!("{}.shop.internal", hire.name), "version": "2.14.0", "labels": labels,
        }));
        let id = self.site.client.register(&worker).await.expect("a worker registers").worker_id;
        let load = 0.2 + self.die(60) as f64 / 100.0;
        self.hands.push(Hand { id, hire, held: Vec::new(), claims: 0, is_alive: true, takes_more: true, load });
        self.hands.len() - 1
    }

    /// Submits runs of one type.
    pub async fn submit(&self, queue: &str, kind: &str, inputs: impl IntoIterator<Item = Value>) {
        let one = |input: Value| {
            let key = input["key"].as_str().map(str::to_owned);
            let input = Some(to_raw_value(&input).expect("JSON is text"));
            SubmitRun { input, key, ..SubmitRun::new(queue, kind) }
        };
        let runs: Vec<SubmitRun> = inputs.into_iter().map(one).collect();
        if !runs.is_empty() {
            self.site.client.submit_batch(&SubmitBatch { runs }).await.expect("runs are taken");
        }
    }

    /// Lets time pass.
    pub async fn pass(&mut self, ms: Millis) {
        let until = self.now() + ms;
        while self.now() < until {
            let step = (self.ticked_at + TICK - self.now()).min(until - self.now());
            self.site.clock.advance(step);
            tokio::time::sleep(ROOM).await;
            if self.now() - self.ticked_at >= TICK {
                self.ticked_at = self.now();
                self.ticks += 1;
                if self.trades {
                    self.trade().await;
                }
                let beats = self.now() - self.beat_at >= BEAT;
                if beats {
                    self.beat_at = self.now();
                }
                if let Some(paper) = self.paper.clone() {
                    paper.obey(self.site, 0).await;
                }
                for hand in 0..self.hands.len() {
                    self.turn(hand, beats).await;
                }
            }
        }
    }

    /// What customers do at a moment: more and more of them, and now and then many at once.
    async fn trade(&mut self) {
        let (tick, rush) = (self.ticks, self.ticks % 170 < 14);
        let uploads = 1 + self.die(3) + tick / 900 + if rush { 5 } else { 0 };
        let receipts = self.die(3);
        let first = tick * 10;
        self.submit("images", "thumbnail", (0..uploads).map(|number| json!({ "upload": first + number }))).await;
        self.submit("mail", "receipt", (0..receipts).map(|number| json!({ "order": first + number }))).await;
        if tick % 7 == 0 {
            let supplier = ["northwind", "acme", "globex", "initech"][(tick / 7) as usize % 4];
            self.submit("stock", "sync-supplier", [json!({ "key": supplier, "page": tick })]).await;
        }
    }

    /// What one worker does at a moment.
    async fn turn(&mut self, hand: usize, beats: bool) {
        let now = self.now();
        let drift = self.die(9) as f64 / 100.0 - 0.04;
        let Hand { id, held, is_alive: true, load, .. } = &mut self.hands[hand] else { return };
        let id = id.clone();
        if beats {
            *load = (*load + drift).clamp(0.05, 0.94);
            let leases: Vec<Value> =
                held.iter().map(|held| json!({ "run_id": held.run, "lease": held.lease })).collect();
            let health = json!({ "cpu": *load, "memory": 0.3 + *load / 3.0, "disk_free_bytes": 41_000_000_000_u64 });
            let beat: Heartbeat = from(json!({ "leases": leases, "health": health }));
            let answer = self.site.client.heartbeat(&id, &beat).await.expect("a beat is heard");
            self.hands[hand].held.retain(|held| !answer.lost.contains(&held.run));
        }
        let done: Vec<Held> = self.hands[hand].held.extract_if(.., |held| held.ends_at <= now).collect();
        for held in done {
            self.end(hand, held).await;
        }
        self.claim(hand).await;
    }

    async fn end(&mut self, hand: usize, held: Held) {
        let hire = self.hands[hand].hire.clone();
        let (fails, number, die) = (self.die(1_000) < hire.fails, self.die(90_000) + 10_000, self.die(60));
        if fails && !hire.errors.is_empty() {
            let (code, error) = hire.errors[die as usize % hire.errors.len()];
            let error = error.replace("{}", &number.to_string());
            let failed: FailRun =
                from(json!({ "lease": held.lease, "error": error, "code": code, "retryable": false }));
            let _ = self.site.client.fail(&held.run, &failed).await;
        } else {
            let output = to_raw_value(&json!({ "id": number, "bytes": number * 7 })).expect("JSON is text");
            let done = CompleteRun { run_id: None, lease: held.lease, output: Some(output) };
            let _ = self.site.client.complete(&held.run, &done).await;
        }
    }

    async fn claim(&mut self, hand: usize) {
        let Hand { id, hire, held, claims, takes_more: true, .. } = &mut self.hands[hand] else { return };
        let free = hire.slots.saturating_sub(held.len() as u32);
        if free == 0 || hire.takes.1 == 0 {
            return;
        }
        *claims += 1;
        let claim: Claim = from(json!({ "start": true, "claim_no": *claims, "max": free }));
        let (id, (least, most)) = (id.clone(), hire.takes);
        let Ok(claimed) = self.site.client.claim(&id, &claim).await else { return };
        for run in claimed.runs {
            let ends_at = self.now() + least + self.die((most - least) as u64) as Millis;
            self.hands[hand].held.push(Held { run: run.run_id, lease: run.lease, ends_at });
        }
    }

    /// Takes the oldest run that waits for this worker, for good: somebody else says how it goes on.
    pub async fn take(&mut self, hand: usize) -> (String, String) {
        let hand = &mut self.hands[hand];
        hand.claims += 1;
        let claim: Claim = from(json!({ "start": true, "claim_no": hand.claims, "max": 1 }));
        let claimed = self.site.client.claim(&hand.id, &claim).await.expect("a claim is answered");
        let run = claimed.runs.into_iter().next().expect("there is something to claim");
        hand.held.push(Held { run: run.run_id.clone(), lease: run.lease.clone(), ends_at: Millis::MAX });
        (run.run_id, run.lease)
    }

    /// What it holds takes longer than it thought.
    pub fn delay(&mut self, hand: usize, ms: Millis) {
        self.hands[hand].held.iter_mut().for_each(|held| held.ends_at = held.ends_at.saturating_add(ms));
    }

    /// The worker has done with what it took.
    pub fn drop_taken(&mut self, hand: usize, run: &str) {
        self.hands[hand].held.retain(|held| held.run != run);
    }
}
