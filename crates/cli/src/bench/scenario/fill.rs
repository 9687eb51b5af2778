//! Fills a store with runs behind its server's back, which is a hundred times faster than through it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use baton_core::{Millis, RunId, State, machine::LeaseEnd, order};
use rusqlite::params;

use crate::bench::database::{self, Database};
use crate::bench::load::{KIND, QUEUE};
use crate::exit::Exit;

/// How many runs of which kind.
#[derive(Clone, Copy)]
pub struct Filling {
    /// Completed runs.
    pub finished: u64,
    /// Runs that can be claimed.
    pub waiting: u64,
}

/// When the first of the filled runs was submitted, before now.
const AGE_MS: Millis = 3_600_000;
/// Runs that share a millisecond.
const RUNS_PER_MS: u64 = 100;
const INPUT: &str = r#"{"id":1,"tenant":"acme","kind":"noop","note":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#;

fn begin_ms() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as Millis - AGE_MS
}

fn waiting_level() -> i16 {
    order::level(order::PRIORITY_DEFAULT, false)
}

/// Fills a PostgreSQL store. The lane has to be there: submit a run first.
pub async fn postgres(database: &Database, filling: Filling) -> Result<(), Exit> {
    let client = database.connect().await?;
    let (finished, waiting, begin) = (filling.finished, filling.waiting, begin_ms());
    let (priority, level) = (order::PRIORITY_DEFAULT, waiting_level());
    let (completed, lease_end) = (State::Completed.code(), LeaseEnd::Completed.code());
    // Identifiers as RunId::new makes them.
    let sql = format!(
        "create temp table fill as
         select number, at, (
             lpad(to_hex(at), 12, '0') || '7' || lpad(to_hex(number >> 14), 3, '0')
             || to_hex(32768 + (number & 16383)) || lpad(to_hex((random() * 281474976710655)::bigint), 12, '0')
         )::uuid as run_id
         from (
             select number::bigint, {begin} + number / {RUNS_PER_MS} as at
             from generate_series(1, {finished} + {waiting}) as number
         ) numbered;
         insert into runs (run_id, lane_id, priority, submitted_at, due_at, input)
         select run_id, lane_id, {priority}, at, at, convert_to('{INPUT}', 'UTF8')
         from fill cross join (
             select lane_id from lanes join queues using (queue_id) where name = '{QUEUE}' and kind = '{KIND}'
         ) lane;
         insert into ended (run_id, state, epoch, failures, losses, ended_at, claimed_at, started_at, lease_end)
         select run_id, {completed}, 1, 0, 0, at + 10, at + 5, at + 5, {lease_end} from fill where number <= {finished};
         insert into live (run_id, queue_id, lane_id, state, place, level, priority, order_at, due_at)
         select run_id, queue_id, lane_id, 0, 0, {level}, {priority}, at, at
         from fill cross join (
             select queue_id, lane_id from lanes join queues using (queue_id) where name = '{QUEUE}' and kind = '{KIND}'
         ) lane
         where number > {finished};
         drop table fill;"
    );
    database::execute(&client, &sql).await
}

/// Fills an SQLite store whose server does not run. The lane has to be there: submit a run first.
pub fn sqlite(path: &Path, filling: Filling) -> Result<(), Exit> {
    fill_sqlite(path, filling).map_err(|error| Exit::failed(format!("SQLite: {error}")))
}

fn fill_sqlite(path: &Path, filling: Filling) -> rusqlite::Result<()> {
    let mut connection = rusqlite::Connection::open(path)?;
    let all = connection.transaction()?;
    let (queue_id, lane_id): (i64, i64) = all.query_row(
        "select queue_id, lane_id from lanes join queues using (queue_id) where name = ?1 and kind = ?2",
        [QUEUE, KIND],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    {
        let mut run = all.prepare(
            "insert into runs (run_id, lane_id, priority, submitted_at, due_at, input) values (?1, ?2, ?3, ?4, ?4, ?5)",
        )?;
        let mut ended = all.prepare(
            "insert into ended (run_id, state, epoch, failures, losses, ended_at, claimed_at, started_at, lease_end)
             values (?1, ?2, 1, 0, 0, ?3, ?3, ?3, ?4)",
        )?;
        let mut live = all.prepare(
            "insert into live (run_id, queue_id, lane_id, state, place, level, priority, order_at, due_at)
             values (?1, ?2, ?3, 0, 0, ?4, ?5, ?6, ?6)",
        )?;
        let begin = begin_ms();
        for number in 1..=filling.finished + filling.waiting {
            let at = begin + (number / RUNS_PER_MS) as Millis;
            // Any number will do where the store has random bits.
            let id = RunId::new(at, number, number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16);
            let id = id.0.as_bytes().as_slice();
            run.execute(params![id, lane_id, order::PRIORITY_DEFAULT, at, INPUT.as_bytes()])?;
            if number <= filling.finished {
                ended.execute(params![id, State::Completed.code(), at, LeaseEnd::Completed.code()])?;
            } else {
                live.execute(params![id, queue_id, lane_id, waiting_level(), order::PRIORITY_DEFAULT, at])?;
            }
        }
    }
    all.commit()
}
