-- Notes leases that ended before their runs did.
insert into attempts (run_id, epoch, worker_id, claimed_at, started_at, lease_end, error, ended_at)
select given.*, $1::bigint
from unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[], $7::smallint[], $8::text[]) as given
