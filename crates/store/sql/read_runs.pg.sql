-- Reads runs with their inputs and outputs, and what they have to do with others. How many they are is hidden from the planner, so that the
-- prepared plan is as good as one made anew; and each is looked up, however large the planner believes the tables to be.
select runs.run_id, runs.lane_id, coalesce(live.state, ended.state) as state, coalesce(live.epoch, ended.epoch) as epoch,
    runs.priority, coalesce(live.failures, ended.failures) as failures, coalesce(live.losses, ended.losses) as losses,
    runs.submitted_at, coalesce(live.due_at, runs.due_at) as due_at, runs.key, runs.affinity, runs.retry_of, runs.options, runs.trace,
    coalesce(live.worker_id, ended.worker_id) as worker_id, coalesce(live.claimed_at, ended.claimed_at) as claimed_at,
    coalesce(live.started_at, ended.started_at) as started_at, live.timeout_at, live.lease_until, live.cancel_by,
    live.place, ended.ended_at, ended.reason,
    case when live.run_id is null then ended.error else (
        select attempts.error from attempts where attempts.run_id = runs.run_id order by attempts.epoch & 4294967295 desc limit 1
    ) end as error, runs.input, ended.output,
    (select relatives.parent from relatives where relatives.run_id = runs.run_id limit 1) as parent,
    (select continued.next from continued where continued.run_id = runs.run_id limit 1) as next,
    (select 1 from inbox where inbox.run_id = runs.run_id and inbox.kind = 2 limit 1) is not null as cancel_requested
from unnest(array(select unnest($1::uuid[]))) as given(run_id)
cross join lateral (select * from runs where runs.run_id = given.run_id limit 1) as runs
left join lateral (select * from live where live.run_id = given.run_id limit 1) as live on true
left join lateral (select * from ended where ended.run_id = given.run_id limit 1) as ended on true
where live.run_id is not null or ended.run_id is not null
