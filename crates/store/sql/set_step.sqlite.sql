-- Remembers something at a position.
insert into steps
    (run_id, position, kind, state, attempts, earlier, epoch, failures, begun_at, ended_at, due_at, message, worker_id, child, name, error, code, output)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
on conflict (run_id, position) do update set
    kind = excluded.kind, state = excluded.state, attempts = excluded.attempts, earlier = excluded.earlier, epoch = excluded.epoch,
    failures = excluded.failures, begun_at = excluded.begun_at, ended_at = excluded.ended_at, due_at = excluded.due_at,
    message = excluded.message, worker_id = excluded.worker_id, child = excluded.child, name = excluded.name, error = excluded.error,
    code = excluded.code, output = excluded.output
