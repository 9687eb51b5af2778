-- What is known of leases under which writes were refused: the newest epoch of the run, whether the lease is good after all, how it
-- ended, and who had it. Each is looked up, however large the planner believes the tables to be.
select given.run_id, given.epoch, coalesce(live.epoch, ended.epoch) as current_epoch,
    coalesce(live.place = 3 and live.epoch = given.epoch, false) as is_held,
    coalesce(case when ended.epoch = given.epoch then ended.lease_end end, attempts.lease_end) as lease_end,
    coalesce(case when ended.epoch = given.epoch then ended.worker_id end, attempts.worker_id) as worker_id
from unnest($1::uuid[], $2::bigint[]) as given(run_id, epoch)
cross join lateral (select run_id from runs where runs.run_id = given.run_id limit 1) as runs
left join lateral (select run_id, epoch, place from live where live.run_id = given.run_id limit 1) as live on true
left join lateral (
    select run_id, epoch, lease_end, worker_id from ended where ended.run_id = given.run_id limit 1
) as ended on true
left join lateral (
    select lease_end, worker_id from attempts where attempts.run_id = given.run_id and attempts.epoch = given.epoch limit 1
) as attempts on true
where live.run_id is not null or ended.run_id is not null
