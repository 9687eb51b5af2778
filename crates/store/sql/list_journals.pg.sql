-- What whoever goes on with workflows has to know: all but the steps that failed in an earlier attempt of their run. Ends with the first
-- step with which they are more, or have more bytes together, than asked for, and without its output: `number` and `bytes` say so. What is
-- not returned is counted without reading it.
select run_id, position, kind, state, attempts, earlier, epoch, failures, begun_at, ended_at, due_at, message, worker_id, child, name, error, code,
    case when bytes <= $2::bigint then output end as output, ordinal, number, bytes
from (
    select steps.*, given.ordinal, row_number() over in_order as number, sum(steps.size) over in_order as bytes
    from unnest($1::uuid[]) with ordinality as given(run_id, ordinal)
    left join lateral (select live.failures from live where live.run_id = given.run_id limit 1) run on true
    join lateral (
        select *, coalesce(octet_length(output), 0) + coalesce(octet_length(error), 0) as size
        from steps where steps.run_id = given.run_id and not (steps.state = 2 and steps.failures < coalesce(run.failures, 0))
    ) steps on true
    window in_order as (order by given.ordinal, steps.position rows unbounded preceding)
) journals
where bytes - size <= $2::bigint and number <= $3::bigint + 1
order by ordinal, position
