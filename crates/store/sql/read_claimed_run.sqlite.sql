-- What goes to the worker with a claimed run.
select submitted_at, options, input, trace from runs where run_id = ?1
