-- What a workflow remembers at a position.
select run_id, position, kind, state, attempts, earlier, epoch, failures, begun_at, ended_at, due_at, message, worker_id, child, name, error, code, output
from steps
where run_id = ?1 and position = ?2
