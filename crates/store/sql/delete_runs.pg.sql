-- Deletes runs that ended long ago. None of them was submitted later, which keeps the scan short. A build goes only when it is among
-- those ($4) that were counted and whose logs were closed, and nothing is left of its log; its files stay until the collector has
-- removed them. Scalar subqueries, because the planner may turn exists into reading all of a table once.
with old as materialized (
    select run_id from ended
    where run_id < $1::uuid and ended_at < $2::bigint
      and ((select 1 from builds where builds.run_id = ended.run_id limit 1) is null
           or ended.run_id = any($4::uuid[])
              and (select 1 from log_chunks where log_chunks.run_id = ended.run_id limit 1) is null
              and (select 1 from measurements where measurements.run_id = ended.run_id limit 1) is null)
    order by run_id limit $3::bigint
    for update skip locked
),
gone as (delete from ended where run_id = any(array(select run_id from old))),
tried as (delete from attempts where run_id = any(array(select run_id from old))),
stepped as (delete from steps where run_id = any(array(select run_id from old))),
stepped_before as (delete from step_attempts where run_id = any(array(select run_id from old))),
messaged as (delete from inbox where run_id = any(array(select run_id from old))),
shown as (delete from published where run_id = any(array(select run_id from old))),
told as (delete from outbox where run_id = any(array(select run_id from old))),
due as (delete from deadlines where run_id = any(array(select run_id from old))),
went_on as (delete from continued where run_id = any(array(select run_id from old))),
refused as (delete from refused_writes where run_id = any(array(select run_id from old))),
traced as (delete from open_traces where run_id = any(array(select run_id from old))),
related as (delete from relatives where run_id = any(array(select run_id from old))),
built as (
    delete from builds where run_id = any(array(select run_id from old))
    returning run_id, source_id, certs_id
),
grown as (delete from build_progress where run_id = any(array(select run_id from built))),
built_on as (delete from machines where run_id = any(array(select run_id from built))),
used as (
    select file.artifact_id, count(*)::integer as uses
    from built cross join lateral (values (built.source_id), (built.certs_id)) as file(artifact_id)
    where file.artifact_id is not null
    group by file.artifact_id
),
released as (
    update artifacts set uses = artifacts.uses - used.uses from used where artifacts.artifact_id = used.artifact_id
),
doomed as (
    update artifacts set uses = 0, doomed_at = coalesce(artifacts.doomed_at, $5::bigint)
    where artifacts.run_id = any(array(select run_id from old)) and artifacts.kind = 2
)
delete from runs where run_id = any(array(select run_id from old))
returning 1
