-- Sets when runs are ended; of two deadlines the earlier one counts. A run that has ended needs none, and one that ends meanwhile takes its
-- deadline along.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
held as materialized (select live.run_id from live where live.run_id = any($2::uuid[]) order by live.run_id for key share)
insert into deadlines (run_id, at, cancels)
select distinct on (given.run_id) given.run_id, clock.now + least(given.after_ms, 9223372036854775807 - clock.now), given.cancels
from clock cross join unnest($2, $3::bigint[], $4::boolean[]) as given(run_id, after_ms, cancels)
where given.run_id in (select held.run_id from held)
order by given.run_id, given.after_ms
on conflict (run_id) do update set at = excluded.at, cancels = excluded.cancels where excluded.at < deadlines.at
