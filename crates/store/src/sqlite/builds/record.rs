//! Builds themselves: taken in, read, counted.

use baton_core::{Epoch, Millis, RunId, State, WorkerId};
use rusqlite::{Error, Result, Row, params};
use uuid::Uuid;

use super::super::connection::Sql;
use super::super::{rows, statements, submit};
use super::logs;
use crate::log_chunks::Chunk;
use crate::{
    ArtifactKind, Build, BuildAnswer, BuildCounts, BuildRefused, BuildSource, LeaseRef, NewBuild, NewRun, StoreError,
    StoreResult, Submission,
};

/// Settles the idempotency key and the files before anything is written: what is refused then has nothing to undo.
pub(super) fn submit(
    sql: &Sql<'_>,
    run: NewRun,
    die: u64,
    build: &NewBuild,
    line: Vec<Chunk>,
) -> StoreResult<BuildAnswer> {
    if let Some(key) = &run.idempotency
        && let Some(Some((known, is_same))) = submit::submitted(sql, std::slice::from_ref(key))?.into_iter().next()
    {
        return Ok(if is_same { Ok(known) } else { Err(BuildRefused::KeyReused) });
    }
    let files = files(&build.source);
    for (id, kind) in &files {
        let parameters = params![id.as_bytes(), build.namespace, kind.code()];
        if sql.row(statements::READ_USABLE_ARTIFACT, parameters, |_| Ok(()))?.is_none() {
            return Ok(Err(BuildRefused::FileMissing(*id)));
        }
    }
    let answers = submit::submit(sql, &[Submission { runs: vec![run], dice: vec![die] }])?;
    let submitted = match answers.into_iter().next() {
        Some(Ok(submitted)) => submitted.first().copied(),
        Some(Err(_)) => return Ok(Err(BuildRefused::KeyReused)),
        None => None,
    };
    let Some(submitted) = submitted else {
        return Err(StoreError::Internal("a build was submitted without an answer".into()));
    };
    insert(sql, submitted.run, build)?;
    logs::add(sql, submitted.run, None, None, line, u64::MAX)?;
    for (id, _) in &files {
        sql.execute(statements::USE_ARTIFACT, params![id.as_bytes(), submitted.run.0.as_bytes()])?;
    }
    Ok(Ok(submitted))
}

pub(super) fn take(sql: &Sql<'_>, run: RunId, worker: WorkerId, die: u32) -> StoreResult<Option<LeaseRef>> {
    let mark = Epoch::new(0).marked(baton_core::mark(die)).code();
    let parameters = params![run.0.as_bytes(), worker.0.as_bytes(), sql.now, mark];
    let Some(epoch) = sql.row(statements::TAKE_BUILD, parameters, |row| rows::epoch(row, 0))? else { return Ok(None) };
    sql.execute(statements::COUNT_WORKER, params![worker.0.as_bytes(), 1, 0, 0])?;
    Ok(Some(LeaseRef { run, epoch }))
}

fn files(source: &BuildSource) -> Vec<(Uuid, ArtifactKind)> {
    match source {
        BuildSource::Files { source, certs } => {
            let certs = certs.map(|certs| (certs, ArtifactKind::Certs));
            std::iter::once((*source, ArtifactKind::Source)).chain(certs).collect()
        }
        BuildSource::Git { .. } => Vec::new(),
    }
}

fn insert(sql: &Sql<'_>, run: RunId, build: &NewBuild) -> StoreResult<()> {
    let columns = build.source.columns();
    sql.execute(
        statements::INSERT_BUILD,
        params![
            run.0.as_bytes(),
            build.namespace,
            build.platform,
            build.project,
            build.key_id,
            columns.source.map(|id| *id.as_bytes()),
            columns.certs.map(|id| *id.as_bytes()),
            columns.slug,
            columns.version,
            columns.url,
            columns.reference,
            columns.image,
            build.base_image,
        ],
    )?;
    sql.execute(statements::INSERT_BUILD_PROGRESS, params![run.0.as_bytes()])?;
    Ok(())
}

pub(super) fn builds(sql: &Sql<'_>, runs: &[RunId]) -> StoreResult<Vec<Option<Build>>> {
    runs.iter().map(|run| sql.row(statements::READ_BUILD, params![run.0.as_bytes()], build)).collect()
}

fn build(row: &Row<'_>) -> Result<Build> {
    let source = match rows::maybe(row, "source_id", uuid)? {
        Some(source) => BuildSource::Files { source, certs: rows::maybe(row, "certs_id", uuid)? },
        None => BuildSource::Git {
            slug: row.get("slug")?,
            version: row.get("version")?,
            url: row.get("url")?,
            reference: row.get("reference")?,
            image: row.get("image")?,
        },
    };
    let submitted = NewBuild {
        namespace: row.get("namespace")?,
        platform: row.get("platform")?,
        project: row.get("project")?,
        key_id: row.get("key_id")?,
        source,
        base_image: row.get("base_image")?,
    };
    Ok(Build { run: rows::run_id(row, "run_id")?, submitted })
}

pub(super) fn uuid(row: &Row<'_>, index: usize) -> Result<Uuid> {
    row.get(index).map(Uuid::from_bytes)
}

pub(super) fn count(sql: &Sql<'_>, namespace: Option<&str>, since: Millis) -> StoreResult<BuildCounts> {
    let mut counts = BuildCounts::default();
    let first = RunId::floor(since);
    let parameters = params![namespace, first.0.as_bytes()];
    for (code, builds) in
        sql.rows(statements::COUNT_BUILDS, parameters, |row| Ok((row.get::<_, i16>(0)?, rows::number(row, 1)?)))?
    {
        match code {
            BuildCounts::SINCE => counts.since = builds,
            code => {
                let state = State::from_code(code).ok_or(Error::IntegralValueOutOfRange(0, code.into()))?;
                counts.add(state, builds);
            }
        }
    }
    Ok(counts)
}

pub(super) fn stuck(sql: &Sql<'_>, silent_ms: Millis, limit: usize) -> StoreResult<Vec<RunId>> {
    let parameters = params![sql.now.saturating_sub(silent_ms), limit as i64];
    sql.rows(statements::LIST_STUCK_BUILDS, parameters, |row| rows::run_id(row, 0))
}
