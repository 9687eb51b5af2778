-- Finds runs whose identifier ends with $1, among the newest $4, newest first. The last twelve digits have no hyphen between them.
select newest.run_id
from (
    select runs.run_id
    from runs
    where ($2::uuid is null or runs.run_id < $2) and ($3::uuid is null or runs.run_id >= $3)
    order by runs.run_id desc limit $4::bigint
) as newest
where right(newest.run_id::text, length($1::text)) = $1
limit $5::bigint
