-- Builds that ended long ago. None of them was submitted later, which keeps the scan short.
select builds.run_id
from builds
cross join lateral (select ended.ended_at from ended where ended.run_id = builds.run_id limit 1) ended
where builds.run_id < $1::uuid and builds.outcome is not null and ended.ended_at < $2::bigint
order by builds.run_id limit $3::bigint
