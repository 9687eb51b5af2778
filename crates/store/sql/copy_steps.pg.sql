-- Copies the completed steps of a run to a new one. The signals it took are not in the other's inbox.
insert into steps (run_id, position, kind, state, attempts, earlier, epoch, failures, begun_at, ended_at, due_at, message, worker_id, child, name, error, code,
    output)
select $2::uuid, position, kind, state, attempts, 0, 0, 0, begun_at, ended_at, due_at, null, worker_id, child, name, error, code, output
from steps
where run_id = $1::uuid and state = 1
