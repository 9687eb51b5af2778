-- What whoever goes on with a workflow has to know: all but the steps that failed in an earlier attempt of the run.
select run_id, position, kind, state, attempts, earlier, epoch, failures, begun_at, ended_at, due_at, message, worker_id, child, name, error, code, output
from steps
where run_id = ?1 and not (state = 2 and failures < coalesce((select live.failures from live where live.run_id = ?1), 0))
order by position
