-- Puts one block of statistics in the place of others, if all of them are still there: whoever comes second waits for the locks,
-- and then finds fewer.
with held as materialized (
    select number from statistics where number = any($1::bigint[]) order by number for update
), whole as materialized (
    select count(*) = cardinality($1::bigint[]) as is_whole from held
), gone as (
    delete from statistics using whole where whole.is_whole and statistics.number = any($1::bigint[])
)
insert into statistics (server, seq, at, step_ms, body)
select '', 0, $2::bigint, $3::bigint, $4::bytea from whole where whole.is_whole
returning 1
