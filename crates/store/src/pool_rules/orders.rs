//! Orders: places for machines, the machines that come, and the agents on them.

use baton_core::Millis;
use baton_core::pools::{Cause, Machine, Runner, RunnerId, RunnerState, runner};
use baton_core::token::{self, Hash};

use super::Sheet;
use super::runners::moved;
use crate::{JoinAnswer, MachineAnswer, NewMachine, NewOrder, Order, Pool, PoolRunner, RunnerEvent};

/// The order, and a row for each machine that the pool has room for. `size`: how many machines it has.
pub(crate) fn place(new: &NewOrder, pool: &Pool, size: u32, now: Millis) -> Option<(Order, Vec<PoolRunner>)> {
    let room = pool.spec.max_size.saturating_sub(size) as usize;
    let row = |id: &RunnerId| PoolRunner {
        id: *id,
        pool: new.pool,
        order: new.order,
        rules: Runner::ordered(now.saturating_add(new.create_ms)),
        run_id: None,
        since: now,
        ordered_at: now,
        machine_id: None,
        machine: Machine {
            kind: String::new(),
            usage: new.usage,
            cpu: pool.spec.cpu,
            memory_mib: pool.spec.memory_mib,
        },
        seen_at: None,
        uses: 0,
        detail: String::new(),
        token: None,
    };
    let rows: Vec<PoolRunner> = new.runners.iter().take(room).map(row).collect();
    if rows.is_empty() {
        return None;
    }
    let order = Order {
        id: new.order,
        pool: new.pool,
        count: rows.len() as u32,
        usage: new.usage,
        types: new.types.clone(),
        ordered_at: now,
        ask_at: now.saturating_add(new.ask_ms),
        asked: 1,
        closed_at: None,
        error: None,
    };
    Some((order, rows))
}

/// The beginning of a runner's history.
pub(crate) fn ordered(row: &PoolRunner) -> RunnerEvent {
    RunnerEvent {
        number: 0,
        at: row.ordered_at,
        pool: row.pool,
        runner: row.id,
        claim: None,
        from: None,
        to: RunnerState::Creating,
        cause: None,
        detail: String::new(),
    }
}

fn waits(row: &PoolRunner) -> bool {
    row.machine_id.is_none() && row.rules.state == RunnerState::Creating
}

/// The row of this machine, or the first that waits for one.
fn row_for(sheet: &Sheet, machine_id: &str) -> Option<RunnerId> {
    let known = sheet.all().find(|row| row.machine_id.as_deref() == Some(machine_id));
    known.or_else(|| sheet.all().find(|row| waits(row))).map(|row| row.id)
}

/// Binds machines to the rows of their order. True when no row waits for one any more.
pub(crate) fn record(sheet: &mut Sheet, machines: Vec<NewMachine>) -> (Vec<MachineAnswer>, bool) {
    let mut answers = Vec::with_capacity(machines.len());
    for made in machines {
        let Some(id) = row_for(sheet, &made.id) else {
            answers.push(MachineAnswer::Surplus);
            continue;
        };
        sheet.note(id, |row| {
            row.machine_id = Some(made.id);
            row.machine = made.machine;
        });
        answers.push(MachineAnswer::Bound(id));
    }
    let is_settled = !sheet.all().any(waits);
    (answers, is_settled)
}

/// The provider has refused: nothing is there to be ended of rows without a machine.
pub(crate) fn fail(sheet: &mut Sheet, error: &str) {
    let now = sheet.now;
    let waiting: Vec<RunnerId> = sheet.all().filter(|row| waits(row)).map(|row| row.id).collect();
    for id in waiting {
        moved(sheet, id, error, |rules| runner::end(rules, rules.epoch, Cause::CreateFailed, now));
        moved(sheet, id, "", runner::gone);
    }
}

/// Binds an agent to the row of its machine.
pub(crate) fn join(sheet: &mut Sheet, machine_id: &str, hash: &Hash) -> JoinAnswer {
    let now = sheet.now;
    // Only the provider says which machines there are: jobs can read the credential that agents join with, and the machine of whatever name was
    // given here would be ended with its runner.
    let Some(row) = sheet.all().find(|row| row.machine_id.as_deref() == Some(machine_id)) else {
        return match sheet.all().any(waits) {
            true => JoinAnswer::NotYet,
            false => JoinAnswer::Unknown,
        };
    };
    let id = row.id;
    match &row.token {
        Some(known) if token::same(known, hash) => return JoinAnswer::Joined(Box::new(row.clone())),
        Some(_) => return JoinAnswer::Taken,
        None if row.rules.state != RunnerState::Creating => return JoinAnswer::Unknown,
        None => {}
    }
    sheet.note(id, |row| {
        row.token = Some(*hash);
        row.seen_at = Some(now);
    });
    sheet.get(id).map_or(JoinAnswer::Unknown, |row| JoinAnswer::Joined(Box::new(row.clone())))
}
