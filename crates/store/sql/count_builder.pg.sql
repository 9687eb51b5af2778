-- Counts an ended build for its builder.
update builders set
    succeeded = succeeded + case when $2::boolean then 1 else 0 end,
    failed = failed + case when $2 then 0 else 1 end
where worker_id = $1::uuid
