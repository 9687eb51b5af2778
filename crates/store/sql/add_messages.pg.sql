-- Leaves messages. The live rows of their runs are locked.
insert into inbox (run_id, number, kind, name, key, payload, at)
select given.*, $1::bigint
from unnest($2::uuid[], $3::bigint[], $4::smallint[], $5::text[], $6::text[], $7::bytea[]) as given
