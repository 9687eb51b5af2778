-- Adds chunks to a log that has room for all of them, while the lease (if any) is the live one. Writers take turns at the row of
-- build_progress. $11 is how many lines the lease has added before, by its own count, if it counts. Nothing back means that something stood in the way; the longer way finds out what.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
held as materialized (
    select 1 from live where live.run_id = $2::uuid and live.epoch = $3::bigint and live.state in (1, 2) for key share
),
tail as (
    update build_progress set log_lines = log_lines + $4::bigint, log_bytes = log_bytes + $5::bigint, log_at = clock.now,
        log_epoch = case when $11::bigint is null then log_epoch else $3 end,
        log_taken = case when $11 is null then log_taken else $11 + $4 end
    from clock
    where build_progress.run_id = $2 and not build_progress.log_full and build_progress.log_bytes + $5 <= $6::bigint
      and ($3 is null or exists (select 1 from held))
      and ($11::bigint is null or $11 = case when build_progress.log_epoch = $3 then build_progress.log_taken else 0 end)
    returning build_progress.log_lines, build_progress.log_bytes
),
added as (
    insert into log_chunks (run_id, last, lines, bytes_before, at, body)
    select $2, tail.log_lines - $4 + given.last, given.lines, tail.log_bytes - $5 + given.bytes_before, clock.now, given.body
    from tail cross join clock cross join unnest($7::bigint[], $8::integer[], $9::bigint[], $10::text[])
        as given(last, lines, bytes_before, body)
)
select log_lines from tail
