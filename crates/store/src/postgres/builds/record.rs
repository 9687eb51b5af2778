//! Builds themselves: taken in, read, counted.

use std::collections::HashMap;

use baton_core::{Epoch, Millis, RunId, WorkerId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::PostgresStore;
use super::super::params::params;
use super::super::pool::{Outcome, Session};
use super::super::submit::{Taker, answer, insert};
use super::super::{rows, sql};
use super::signed;
use crate::log_chunks::Chunk;
use crate::{
    Build, BuildAnswer, BuildCounts, BuildRefused, BuildSource, LeaseRef, NewBuild, NewRun, StoreError, Submission,
    Submitted,
};

impl PostgresStore {
    /// The kernel's submit and the build's own rows, in one transaction.
    pub(super) async fn take_build(
        &self,
        submission: &Submission,
        build: &NewBuild,
        line: &[Chunk],
    ) -> Outcome<BuildAnswer> {
        let runs: Vec<(&NewRun, u64)> = submission.runs.iter().zip(submission.dice.iter().copied()).collect();
        let session = self.database.transaction().await?;
        let (now, places) = match runs.iter().any(|(run, _)| run.key.is_some()) {
            true => self.fair_places(&session, &runs).await?,
            false => (self.database.fixed_now(), vec![None; runs.len()]),
        };
        let taken = insert(&session, &runs, now, &places, &Taker::default()).await?;
        let answers = answer(&session, std::slice::from_ref(submission), &taken).await?;
        let submitted = match answers.into_iter().next() {
            Some(Ok(submitted)) => submitted.first().copied(),
            Some(Err(_)) => {
                session.roll_back().await?;
                return Ok(Err(BuildRefused::KeyReused));
            }
            None => None,
        };
        let Some(submitted) = submitted else {
            return Err(StoreError::Internal("a build was submitted without an answer".into()).into());
        };
        if submitted.is_new
            && let Some(missing) = add_build(&session, submitted, build, line).await?
        {
            session.roll_back().await?;
            return Ok(Err(BuildRefused::FileMissing(missing)));
        }
        session.commit().await?;
        self.note_claimable(&taken, &runs);
        Ok(Ok(submitted))
    }

    pub(super) async fn hand_build_to(&self, run: RunId, worker: WorkerId, die: u32) -> Outcome<Option<LeaseRef>> {
        let (now, mark) = (self.database.fixed_now(), Epoch::new(0).marked(baton_core::mark(die)).code());
        let rows = self.database.query(sql::TAKE_BUILD, params![now, run.0, worker.0, mark]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(LeaseRef { run, epoch: Epoch::from_code(row.try_get(0)?) }))
    }

    pub(super) async fn list_builds(&self, runs: &[RunId]) -> Outcome<Vec<Option<Build>>> {
        let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
        let mut found = HashMap::new();
        for row in self.database.query(sql::LIST_BUILDS, params![ids]).await? {
            let build = build(&row)?;
            found.insert(build.run, build);
        }
        Ok(runs.iter().map(|run| found.get(run).cloned()).collect())
    }

    pub(super) async fn count_all_builds(&self, namespace: Option<&str>, since: Millis) -> Outcome<BuildCounts> {
        let mut counts = BuildCounts::default();
        for row in self.look_up(sql::COUNT_BUILDS, params![namespace, RunId::floor(since).0]).await? {
            let (code, builds) = (row.try_get::<_, i16>("state")?, row.try_get::<_, i64>("builds")?.max(0) as u64);
            match code {
                BuildCounts::SINCE => counts.since = builds,
                code => counts.add(rows::state(code)?, builds),
            }
        }
        Ok(counts)
    }

    pub(super) async fn list_stuck_builds(&self, silent_ms: Millis, limit: usize) -> Outcome<Vec<RunId>> {
        let now = self.database.fixed_now();
        let rows = self.look_up(sql::LIST_STUCK_BUILDS, params![now, silent_ms, limit as i64]).await?;
        rows.iter().map(|row| rows::run_id(row, "run_id")).collect()
    }
}

/// Writes a build. Returns a file that is not there, in which case all of it has to be undone.
async fn add_build(
    session: &Session<'_>,
    submitted: Submitted,
    build: &NewBuild,
    line: &[Chunk],
) -> Outcome<Option<Uuid>> {
    let line = line.first();
    let columns = build.source.columns();
    let rows = session
        .query(
            sql::ADD_BUILD,
            params![
                submitted.run.0,
                build.namespace,
                build.platform,
                build.project,
                build.key_id,
                columns.source,
                columns.certs,
                columns.slug,
                columns.version,
                columns.url,
                columns.reference,
                columns.image,
                build.base_image,
                submitted.submitted_at,
                line.map(|line| signed(line.bytes)),
                line.map(|line| line.body.as_str()),
            ],
        )
        .await?;
    let mut there = Vec::with_capacity(rows.len());
    for row in &rows {
        there.push(row.try_get::<_, Uuid>(0)?);
    }
    // A file is of one kind, so one that is named as both is missing as the other.
    let twice = columns.certs.filter(|certs| columns.source == Some(*certs));
    Ok(twice.or([columns.source, columns.certs].into_iter().flatten().find(|file| !there.contains(file))))
}

fn build(row: &Row) -> Outcome<Build> {
    let source = match row.try_get("source_id")? {
        Some(source) => BuildSource::Files { source, certs: row.try_get("certs_id")? },
        None => BuildSource::Git {
            slug: row.try_get("slug")?,
            version: row.try_get("version")?,
            url: row.try_get("url")?,
            reference: row.try_get("reference")?,
            image: row.try_get("image")?,
        },
    };
    let submitted = NewBuild {
        namespace: row.try_get("namespace")?,
        platform: row.try_get("platform")?,
        project: row.try_get("project")?,
        key_id: row.try_get("key_id")?,
        source,
        base_image: row.try_get("base_image")?,
    };
    Ok(Build { run: rows::run_id(row, "run_id")?, submitted })
}
