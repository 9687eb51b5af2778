-- Finds how leases ended, and the state of their runs if those have ended too.
select given.run_id, given.epoch, ended.state,
    coalesce(case when ended.epoch = given.epoch then ended.lease_end end, attempts.lease_end) as lease_end
from unnest($1::uuid[], $2::bigint[]) as given(run_id, epoch)
left join ended on ended.run_id = given.run_id
left join attempts on attempts.run_id = given.run_id and attempts.epoch = given.epoch
where ended.run_id is not null or attempts.run_id is not null
