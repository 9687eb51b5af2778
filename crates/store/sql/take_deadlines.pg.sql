-- Forgets deadlines that have passed. The live rows of their runs are locked.
delete from deadlines where run_id = any($2::uuid[]) and at <= coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) returning run_id, cancels
