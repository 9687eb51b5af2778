-- Finds runs whose identifier ends with these bytes, among the newest $4, newest first.
select newest.run_id
from (
    select runs.run_id
    from runs
    where ($2::uuid is null or runs.run_id < $2) and ($3::uuid is null or runs.run_id >= $3)
    order by runs.run_id desc limit $4::bigint
) as newest
where substring(uuid_send(newest.run_id) from 17 - length($1::bytea)) = $1
limit $5::bigint
