-- Keeps attempts of steps that failed or were lost.
insert into step_attempts (run_id, position, attempt, state, epoch, worker_id, begun_at, ended_at, name, error, code)
select * from unnest($1::uuid[], $2::integer[], $3::integer[], $4::smallint[], $5::bigint[], $6::uuid[], $7::bigint[], $8::bigint[],
    $9::text[], $10::text[], $11::text[])
on conflict do nothing
