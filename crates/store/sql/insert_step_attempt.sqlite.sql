-- Keeps an attempt of a step that failed or was lost.
insert or ignore into step_attempts (run_id, position, attempt, state, epoch, worker_id, begun_at, ended_at, name, error, code)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
