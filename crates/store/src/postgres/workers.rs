//! Workers: registering, signs of life, status, lists.

use std::collections::{BTreeMap, HashMap};

use baton_core::{Epoch, Millis, RunId, WorkerId};
use futures_util::future::join3;
use uuid::Uuid;

use super::PostgresStore;
use super::end::{Records, Writes};
use super::params::params;
use super::pool::Outcome;
use super::rows::{self, clean, to_json};
use super::sql;
use crate::decide::Act;
use crate::{
    Beat, BeatAnswer, LeaseRef, NewWorker, Page, Registered, StoreError, Verdict, Worker, WorkerChange, WorkerFilter,
    WorkerStatus,
};

impl PostgresStore {
    pub(super) async fn register_worker(&self, worker: &NewWorker) -> Outcome<Registered> {
        let info = to_json(&worker.info)?;
        let now = self.database.fixed_now();
        let added = self
            .database
            .query(
                sql::REGISTER_WORKER,
                params![
                    now,
                    worker.id.0,
                    worker.instance,
                    worker.namespace,
                    worker.name,
                    info,
                    worker.key_id,
                    worker.max_concurrent as i32,
                    worker.ttl_ms
                ],
            )
            .await?;
        if let Some(row) = added.first() {
            return Ok(Registered { id: WorkerId(row.try_get(0)?), is_new: true, at: row.try_get(1)? });
        }
        let found = self.database.query(sql::FIND_INSTANCE, params![worker.id.0, worker.instance]).await?;
        match found.first() {
            Some(row) => Ok(Registered { id: WorkerId(row.try_get(0)?), is_new: false, at: row.try_get(1)? }),
            None => Err(StoreError::Unavailable("the worker was deleted while it registered".into()).into()),
        }
    }

    pub(super) async fn renew_workers(&self, beats: &[Beat]) -> Outcome<Vec<BeatAnswer>> {
        // One row for each worker: of several beats the last one that says something about health counts, or about the ttl.
        let mut health: BTreeMap<Uuid, Option<&Beat>> = BTreeMap::new();
        let mut ttls_ms: BTreeMap<Uuid, Option<Millis>> = BTreeMap::new();
        for beat in beats {
            let newest = health.entry(beat.worker.0).or_default();
            if beat.health.is_some() {
                *newest = Some(beat);
            }
            let ttl_ms = ttls_ms.entry(beat.worker.0).or_default();
            *ttl_ms = beat.ttl_ms.or(*ttl_ms);
        }
        let ttls_ms: Vec<Option<Millis>> = ttls_ms.into_values().collect();
        let workers: Vec<Uuid> = health.keys().copied().collect();
        let measured: Vec<bool> = health.values().map(Option::is_some).collect();
        let measurements: Vec<Option<String>> = health
            .values()
            .map(|beat| beat.and_then(|beat| beat.health.as_ref()).map(to_json).transpose())
            .collect::<Outcome<_>>()?;
        let unfit: Vec<Option<String>> =
            health.values().map(|beat| beat.and_then(|beat| beat.unfit.as_deref()).map(clean)).collect();
        let now = self.database.fixed_now();
        let mut renewed = HashMap::new();
        for row in self
            .database
            .query_often(
                sql::RENEW_WORKERS,
                params![now, workers, measured, measurements, unfit, ttls_ms],
                workers.len(),
            )
            .await?
        {
            let runs: Option<Vec<Uuid>> = row.try_get("runs")?;
            let epochs: Option<Vec<i64>> = row.try_get("epochs")?;
            let lease = |(run, epoch)| LeaseRef { run: RunId(run), epoch: Epoch::from_code(epoch) };
            let cancelling = runs.into_iter().flatten().zip(epochs.into_iter().flatten()).map(lease).collect();
            let answer = match row.try_get("lease_until")? {
                Some(lease_until) => BeatAnswer::Alive {
                    status: rows::worker_status(row.try_get("status")?)?,
                    lease_until,
                    held: row.try_get::<_, i32>("active")?.max(0) as u32,
                    lost: Vec::new(),
                    cancelling,
                },
                None => BeatAnswer::Offline,
            };
            renewed.insert(WorkerId(row.try_get("worker_id")?), answer);
        }
        let mut answers: Vec<BeatAnswer> =
            beats.iter().map(|beat| renewed.get(&beat.worker).cloned().unwrap_or(BeatAnswer::Unknown)).collect();
        self.check_leases(beats, &mut answers).await?;
        Ok(answers)
    }

    /// Fills in which of the leases that live workers spoke of are lost.
    async fn check_leases(&self, beats: &[Beat], answers: &mut [BeatAnswer]) -> Outcome<()> {
        let mut given: Vec<(usize, LeaseRef)> = Vec::new();
        for (index, (beat, answer)) in beats.iter().zip(answers.iter()).enumerate() {
            if matches!(answer, BeatAnswer::Alive { .. }) {
                given.extend(beat.leases.iter().map(|lease| (index, *lease)));
            }
        }
        if given.is_empty() {
            return Ok(());
        }
        let workers: Vec<Uuid> = given.iter().map(|(index, _)| beats[*index].worker.0).collect();
        let runs: Vec<Uuid> = given.iter().map(|(_, lease)| lease.run.0).collect();
        let epochs: Vec<i64> = given.iter().map(|(_, lease)| lease.epoch.code()).collect();
        let now = self.database.fixed_now();
        for row in self.database.query(sql::CHECK_LEASES, params![now, workers, runs, epochs]).await? {
            let (index, lease) = given[row.try_get::<_, i64>(0)? as usize - 1];
            if let BeatAnswer::Alive { lost, .. } = &mut answers[index] {
                lost.push(lease);
            }
        }
        Ok(())
    }

    pub(super) async fn list_strays(
        &self,
        worker: WorkerId,
        known: &[LeaseRef],
        age_ms: Millis,
        limit: usize,
    ) -> Outcome<Vec<LeaseRef>> {
        let runs: Vec<Uuid> = known.iter().map(|lease| lease.run.0).collect();
        let epochs: Vec<i64> = known.iter().map(|lease| lease.epoch.code()).collect();
        let (now, limit) = (self.database.fixed_now(), limit as i64);
        let found = self.database.query(sql::LIST_STRAYS, params![now, worker.0, age_ms, runs, epochs, limit]).await?;
        let lease = |row| Ok(LeaseRef { run: rows::run_id(row, "run_id")?, epoch: rows::epoch(row, "epoch")? });
        found.iter().map(lease).collect()
    }

    pub(super) async fn change_worker(
        &self,
        worker: WorkerId,
        status: WorkerStatus,
        why: &str,
    ) -> Outcome<Option<WorkerChange>> {
        match status {
            WorkerStatus::Offline => self.take_offline(worker, why).await,
            WorkerStatus::Online | WorkerStatus::Draining => {
                let reason = reason(why);
                let rows =
                    self.database.query(sql::SET_WORKER_STATUS, params![worker.0, status.code(), reason]).await?;
                Ok(rows.first().map(|_| WorkerChange::default()))
            }
        }
    }

    async fn take_offline(&self, worker: WorkerId, why: &str) -> Outcome<Option<WorkerChange>> {
        let session = self.database.transaction().await?;
        let fixed = self.database.fixed_now();
        // Runs before workers is the order of locks. A claim that was faster may add runs between the two, so they
        // are read again once the worker is offline and no claim can add any.
        let (before, marked, held) = join3(
            session.query(sql::HOLD_WORKER_RUNS, params![fixed, worker.0]),
            session.query(sql::SET_WORKER_OFFLINE, params![fixed, worker.0, reason(why)]),
            session.query(sql::HOLD_WORKER_RUNS, params![fixed, worker.0]),
        )
        .await;
        before?;
        let (marked, held) = (marked?, held?);
        if marked.is_empty() {
            session.commit().await?;
            let known = self.database.query(sql::READ_STATUSES, params![vec![worker.0]]).await?;
            return Ok(known.first().map(|_| WorkerChange::default()));
        }
        let mut records = Records::of(&held)?;
        let mut leases: Vec<LeaseRef> =
            records.live.values().map(|row| LeaseRef { run: row.run, epoch: row.rules.epoch }).collect();
        leases.sort_by_key(|lease| lease.run);
        let mut writes = Writes::default();
        let verdicts = leases.iter().map(|lease| writes.act(&mut records, *lease, &Act::GiveBack(why), 0.0));
        let given_back = verdicts.filter(|verdict| matches!(verdict, Verdict::Done { .. })).count() as u64;
        let woken = self.write(&session, writes, records.now).await?;
        Ok(Some(WorkerChange { given_back, woken }))
    }

    pub(super) async fn read_worker(&self, worker: WorkerId) -> Outcome<Option<Worker>> {
        self.database.query(sql::READ_WORKER, params![worker.0]).await?.first().map(rows::worker).transpose()
    }

    pub(super) async fn list_workers(&self, filter: &WorkerFilter, page: Page<WorkerId>) -> Outcome<Vec<Worker>> {
        let status = filter.status.map(WorkerStatus::code);
        let (after, limit) = (page.after.map(|worker| worker.0), page.limit as i64);
        let params = params![filter.namespace, status, filter.queue, after, limit];
        self.database.query(sql::LIST_WORKERS, params).await?.iter().map(rows::worker).collect()
    }

    pub(super) async fn count_all_workers(&self, filter: &WorkerFilter) -> Outcome<u64> {
        let status = filter.status.map(WorkerStatus::code);
        let rows = self.database.query(sql::COUNT_WORKERS, params![filter.namespace, status, filter.queue]).await?;
        Ok(rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()?.unwrap_or_default() as u64)
    }
}

/// An empty reason is none.
fn reason(why: &str) -> Option<String> {
    (!why.is_empty()).then(|| clean(why))
}
