-- Remembers things at positions. The live rows of their runs are locked.
insert into steps (run_id, position, kind, state, attempts, earlier, epoch, failures, begun_at, ended_at, due_at, message, worker_id, child, name, error, code,
    output)
select * from unnest($1::uuid[], $2::integer[], $3::smallint[], $4::smallint[], $5::integer[], $6::integer[], $7::bigint[], $8::integer[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::uuid[], $14::uuid[], $15::text[], $16::text[], $17::text[], $18::bytea[])
on conflict (run_id, position) do update set
    kind = excluded.kind, state = excluded.state, attempts = excluded.attempts, earlier = excluded.earlier, epoch = excluded.epoch,
    failures = excluded.failures, begun_at = excluded.begun_at, ended_at = excluded.ended_at, due_at = excluded.due_at,
    message = excluded.message, worker_id = excluded.worker_id, child = excluded.child, name = excluded.name, error = excluded.error,
    code = excluded.code, output = excluded.output
