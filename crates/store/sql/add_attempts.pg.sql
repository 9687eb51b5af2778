-- Notes leases that ended before their runs did. Of one that was taken from its holder (4 lost, 5 timed out, 6 cancelled) also when that
-- was heard of last.
insert into attempts (run_id, epoch, worker_id, claimed_at, started_at, lease_end, error, ended_at, seen_at)
select given.*, $1::bigint,
    case when given.lease_end >= 4 then
        (select worker_live.seen_at from worker_live where worker_live.worker_id = given.worker_id limit 1)
    end
from unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[], $7::smallint[], $8::text[])
    as given(run_id, epoch, worker_id, claimed_at, started_at, lease_end, error)
