-- Runs whose deadline has passed.
select run_id from deadlines where at <= coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) order by at, run_id limit $2::bigint
